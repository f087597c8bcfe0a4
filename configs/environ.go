package configs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dispatcher/sender"
)

const (
	envPrefix  = "DISPATCHER_"
	fileEnv    = envPrefix + "CONFIG"
	resultsEnv = envPrefix + "SENDER_HTTP_RESULTS_"
)

// headerKeys are the mappings whose names are those of headers.
var headerKeys = []string{"sender.http.headers", "tracing.headers"} //nolint:gochecknoglobals // a constant list

// foreign tells the DISPATCHER_ variables that are no settings.
func foreign(name string) bool {
	return name == fileEnv || name == "DISPATCHER_REQUIRE_DOCKER" ||
		strings.HasPrefix(name, "DISPATCHER_TEST_")
}

var serviceName = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceLink tells the variables that Kubernetes puts into every pod for each Service of
// its namespace. Those of the Services dispatcher and dispatcher-redis begin as ours do, and
// must not keep a pod from starting. A name that just ends in _PORT may be meant as a setting,
// but then its value is no URL.
func serviceLink(name, value string) bool {
	return serviceName.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// environment makes a map of NAME=value entries; the last of a name wins.
func environment(environ func() []string) map[string]string {
	env := map[string]string{}
	if environ == nil {
		return env
	}
	for _, entry := range environ() {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

// envName is the variable of a path: kafka.tls.ca_file has
// DISPATCHER_KAFKA_TLS_CA_FILE.
func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// envOverrides reads the DISPATCHER_ variables. No two of them name the same
// setting. Each fault is handed to fault.
func envOverrides(env map[string]string, fault func(error)) []override {
	known := map[string]string{} // variable → path
	for _, path := range paths() {
		known[envName(path)] = path
	}
	var overrides []override
	for _, name := range slices.SortedFunc(maps.Keys(env), compareNames) {
		if !strings.HasPrefix(name, envPrefix) || foreign(name) {
			continue
		}
		path, ok := envPath(name, known)
		if !ok && serviceLink(name, env[name]) {
			continue
		}
		if !ok {
			fault(unknownVariable(name, known))
			continue
		}
		if o, err := newOverride(name, path, env[name]); err != nil {
			fault(misreadAt(path, err))
		} else {
			overrides = append(overrides, o)
		}
	}
	return overrides
}

// compareNames sorts the places in a list by number: an entry is created only after
// the one before it.
func compareNames(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "_"), strings.Split(b, "_"), compareSteps)
}

func compareSteps(a, b string) int {
	m, errA := strconv.Atoi(a)
	n, errB := strconv.Atoi(b)
	if errA == nil && errB == nil {
		return cmp.Compare(m, n)
	}
	return strings.Compare(a, b)
}

// envPath finds the path of a variable. Only the list of known variables tells an
// underscore that is a step from one in a name.
func envPath(name string, known map[string]string) (string, bool) {
	for _, key := range headerKeys {
		if header, ok := strings.CutPrefix(name, envName(key)+"_"); ok && header != "" {
			return key + "." + strings.ToLower(strings.ReplaceAll(header, "_", "-")), true
		}
	}
	if status, ok := strings.CutPrefix(name, resultsEnv); ok && status != "" {
		return "sender.http.results." + strings.ReplaceAll(status, "_", "-"), true
	}
	for _, list := range []string{limitsKey, lanesKey, tokensKey} {
		if rest, ok := strings.CutPrefix(name, envName(list)+"_"); ok {
			index, key, _ := strings.Cut(rest, "_")
			_, ok := known[envName(list)+"_0_"+key]
			return list + "." + index + "." + strings.ToLower(key), ok
		}
	}
	path, ok := known[name]
	return path, ok
}

func unknownVariable(name string, known map[string]string) error {
	return unknown("environment: "+name+" names no setting", name, slices.Sorted(maps.Keys(known)))
}

// setOverrides reads path=value settings in the order they were given. Each fault
// is handed to fault.
func setOverrides(settings []string, fault func(error)) []override {
	var overrides []override
	for _, setting := range settings {
		path, value, ok := strings.Cut(setting, "=")
		if !ok {
			// Not shown in full: it may be a password that lost its key.
			fault(fmt.Errorf("--set: a setting of %d bytes without a =; write path=value", len(setting)))
			continue
		}
		if o, err := newOverride("--set "+path, path, value); err != nil {
			fault(misreadAt(path, err))
		} else {
			overrides = append(overrides, o)
		}
	}
	return overrides
}

func newOverride(from, path, text string) (override, error) {
	steps := strings.Split(path, ".")
	f, err := lookup(steps)
	if err != nil {
		return override{}, fmt.Errorf("%s: %w", from, err)
	}
	for _, key := range headerKeys {
		name, ok := strings.CutPrefix(path, key+".")
		if !ok {
			continue
		}
		if !sender.IsHeaderName(name) {
			return override{}, fmt.Errorf("%s: %s is no name of a header", from, show(name))
		}
		steps = append(strings.Split(key, "."), strings.ToLower(name))
	}
	var c checker
	value := c.value(path, f, f.fromText(text))
	if err := errors.Join(c.faults...); err != nil {
		return override{}, fmt.Errorf("%s: %w", from, err)
	}
	return override{from: from, path: steps, value: value}, nil
}
