package configs

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

//go:embed default.yaml
var defaults []byte

const (
	maxFileBytes = 1 << 20

	// separator keeps viper from taking the dot in a header's name for a step
	// into a section. It can't occur in a key or a header's name.
	separator = "::"

	limitsKey = "limits"
	lanesKey  = "kafka.lanes"
	tokensKey = "admin.auth.tokens"
	topicsKey = "kafka.topics"
)

// Source is where settings come from, besides the defaults.
type Source struct {
	// File is the path of a YAML file; empty: the environment names it as
	// DISPATCHER_CONFIG, or there is none.
	File string
	// Set are settings as path=value. They win over all other sources.
	Set []string
	// Environ returns the environment as NAME=value, as os.Environ does. References
	// ${env:NAME} are looked up in it, too. Nil: the environment is empty.
	Environ func() []string
	// CallsNobody is for settings with which the provider will not be called. References in
	// the headers of the calls and of tracing may lead nowhere, since the secrets may be missing.
	CallsNobody bool
	// OnlyShown is for settings that will only be shown. References may lead nowhere,
	// and are shown as they were written.
	OnlyShown bool
}

// Load reads the settings. Its error joins everything that is wrong with the sources:
// unreadable files, unknown keys, values of the wrong type, references that lead
// nowhere. [Config.Validate] checks whether the values make sense.
func Load(src Source) (Config, error) {
	r := read(src)
	if len(r.faults) > 0 {
		return Config{}, errors.Join(r.faults...)
	}
	return r.config, nil
}

// read reads all sources.
func read(src Source) *reading {
	var file []byte
	if src.File = cmp.Or(src.File, environment(src.Environ)[fileEnv]); src.File != "" {
		var err error
		if file, err = readFile(src.File); err != nil {
			return unreadable(fmt.Errorf("read config: %w", err))
		}
	}
	return readOver(file, src)
}

// readOver is read with the content of the file.
func readOver(file []byte, src Source) *reading {
	r := &reading{}
	tree, faults, err := parseYAML(file)
	if err != nil {
		return unreadable(fmt.Errorf("config %s: %w", src.File, err))
	}
	for _, fault := range faults {
		r.fault(fmt.Errorf("%s: %w", cmp.Or(src.File, "the file"), fault))
	}
	base, faults, err := parseYAML(defaults)
	if err := errors.Join(append(faults, err)...); err != nil {
		return unreadable(fmt.Errorf("built-in defaults: %w", err))
	}
	v := viper.NewWithOptions(viper.KeyDelimiter(separator))
	for key, value := range base {
		v.SetDefault(key, value)
	}
	if err := v.MergeConfigMap(tree); err != nil {
		return unreadable(fmt.Errorf("merge config: %w", err))
	}
	env := environment(src.Environ)
	entries := lists{}
	for _, key := range []string{limitsKey, lanesKey, tokensKey} {
		entries[key] = sections(v.Get(viperKey(key)))
	}
	fillLimits(entries[limitsKey], sections(base[limitsKey])[0])
	for _, o := range append(envOverrides(env, r.fault), setOverrides(src.Set, r.fault)...) {
		r.fault(o.apply(v, entries))
	}
	for key, list := range entries {
		v.Set(viperKey(key), list)
	}
	if len(entries[lanesKey]) > 0 {
		v.SetDefault(viperKey(topicsKey), []string{}) // lanes stand in for the default topic
	}
	r.decode(v, env, src)
	return r
}

func viperKey(path string) string { return strings.ReplaceAll(path, ".", separator) }

// sections are the entries of a list of sections. The checker has seen to their types.
func sections(v any) []map[string]any {
	list, _ := v.([]any)
	entries := make([]map[string]any, len(list))
	for i := range list {
		entries[i], _ = list[i].(map[string]any)
	}
	return entries
}

// lists are the lists of sections by their path. Their entries can be set one by
// one.
type lists map[string][]map[string]any

func (r *reading) decode(v *viper.Viper, env map[string]string, src Source) {
	c := &r.config
	err := v.UnmarshalExact(c, func(dc *mapstructure.DecoderConfig) {
		dc.TagName, dc.SquashTagOption = "yaml", "inline"
		dc.WeaklyTypedInput = false
	})
	if err != nil {
		// The sources were checked one by one, so this is a fault of the program. The
		// decoder's own message may hold a secret.
		*r = *unreadable(errors.New("config: the checked settings do not fit their struct"))
		return
	}
	c.resolve(env, src, r.fault)
}

// parseYAML reads one document. It returns the keys and values that fit [Config], and
// a fault for each other one. A key without a value counts as left out.
func parseYAML(text []byte) (tree map[string]any, faults []error, err error) {
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc any
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return map[string]any{}, nil, nil
	case err != nil:
		return nil, nil, errors.New(plain(err))
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("holds more than one document")
	}
	if doc == nil {
		return map[string]any{}, nil, nil
	}
	mapping, ok := doc.(map[string]any)
	if !ok {
		return nil, nil, errors.New("is no mapping of keys to values")
	}
	var c checker
	tree = c.section("", reflect.TypeFor[Config](), mapping)
	return tree, c.faults, nil
}

// plain is the parser's message on one line. It leaves out the name of an unknown
// alias, which may be a password that lacks its quotes.
func plain(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n  ", " ")
	if strings.Contains(text, "unknown anchor") {
		return "yaml: a value begins with * and is no alias; put it into quotes"
	}
	return text
}

// fillLimits gives each limit the defaults of the keys that it leaves out. The name,
// the cap and the window have no default: they are the contract. What a limit after the first
// may not state stays empty.
func fillLimits(limits []map[string]any, standard map[string]any) {
	for i, given := range limits {
		limits[i] = map[string]any{"name": "", "cap": int64(0), "window": "0s"}
		for _, key := range []string{"burst", "max_cost", "max_in_flight", "guard", "lateness", "spread", "horizon"} {
			if i == 0 || ofGate(key) {
				limits[i][key] = standard[key]
			}
		}
		maps.Copy(limits[i], given)
	}
}

// override is one setting from the environment or the command line.
type override struct {
	from  string // its source, for errors
	path  []string
	value any
}

func (o override) apply(v *viper.Viper, entries lists) error {
	for key := range entries {
		if rest, ok := strings.CutPrefix(strings.Join(o.path, "."), key+"."); ok {
			index, field, _ := strings.Cut(rest, ".")
			return o.applyTo(entries, key, index, field)
		}
	}
	v.Set(strings.Join(o.path, separator), o.value)
	return nil
}

// applyTo sets a field of a list's entry. Setting the next lane or token creates it; a
// limit must be in the file.
func (o override) applyTo(entries lists, key, index, field string) error {
	list := entries[key]
	i, err := strconv.Atoi(index)
	if err == nil && key != limitsKey && i == len(list) {
		list = append(list, map[string]any{})
		entries[key] = list
	}
	if err != nil || i >= len(list) {
		one := strings.TrimSuffix(key[strings.LastIndex(key, ".")+1:], "s")
		return fmt.Errorf("%s: there is no %s %s; %d are stated, counted from 0", o.from, one, index, len(list))
	}
	list[i][field] = o.value
	return nil
}

// readFile reads a regular file of bounded size: a pipe or a device could block the
// start for ever.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", path, info.Size(), maxFileBytes)
	}
	return os.ReadFile(path)
}
