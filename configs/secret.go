package configs

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	redacted = "[redacted]"
	urlKey   = "sender.http.url"
	tokenKey = "kafka.sasl.oauth.token_url"
)

func isURL(path string) bool { return path == urlKey || path == tokenKey }

// resolve replaces the references in every text and remembers what was there.
// Each fault is handed to fault. With onlyShown, references that lead nowhere stay.
func (c *Config) resolve(env map[string]string, onlyShown bool, fault func(error)) {
	c.written, c.env = map[string]string{}, env
	c.eachText(func(path string, _ bool, text string) string {
		value, err := expand(text, env)
		if err != nil && onlyShown {
			c.written[path] = text
			return text
		}
		if err != nil {
			fault(misreadAt(path, fmt.Errorf("%s: %w", path, err)))
		}
		if value != text {
			c.written[path] = text
		}
		return value
	})
}

// Reread returns how the text at a path is read again; nil: it refers to no file,
// and never changes. What it returns may be called from any goroutine; its error
// names the reference, and never holds what it stands for.
func (c Config) Reread(path string) func() (string, error) {
	written, env := c.written[path], c.env
	if !strings.Contains(written, "${file:") {
		return nil
	}
	return func() (string, error) { return expand(written, env) }
}

// expand replaces ${env:NAME} and ${file:/path}; $${ stands for a literal ${.
// What a reference yields is not looked through again.
func expand(text string, env map[string]string) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		if !found {
			out.WriteString(text)
			return out.String(), nil
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			out.WriteString(escaped + "${")
			text = after
			continue
		}
		reference, rest, closed := strings.Cut(after, "}")
		if !closed {
			return "", errors.New("a ${ without its }; write $${ for a literal one")
		}
		value, err := dereference(reference, env)
		if err != nil {
			return "", err
		}
		out.WriteString(before + value)
		text = rest
	}
}

func dereference(reference string, env map[string]string) (string, error) {
	shown := "${" + reference + "}"
	kind, name, _ := strings.Cut(reference, ":")
	switch kind {
	case "env":
		value, ok := env[name]
		if !ok {
			return "", fmt.Errorf("%s: the environment has no such variable", shown)
		}
		return value, nil
	case "file":
		content, err := readFile(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", shown, err)
		}
		line := strings.TrimSuffix(string(content), "\n")
		return strings.TrimSuffix(line, "\r"), nil
	}
	// Not shown: without a kind it may as well be a piece of a password.
	return "", errors.New("a ${…} that is neither ${env:NAME} nor ${file:/path}; write $${ for a literal ${")
}

// Redacted is a copy to be shown to people: references as they were written,
// secrets that stand there literally as [redacted]. Secrets are passwords,
// headers whose name says so, and parts of the URL that usually hold one.
func (c Config) Redacted() Config {
	shown := c
	shown.Kafka.Brokers = slices.Clone(c.Kafka.Brokers)
	shown.Kafka.Topics = slices.Clone(c.Kafka.Topics)
	shown.Kafka.RetryTopics = slices.Clone(c.Kafka.RetryTopics)
	shown.Kafka.SASL.OAuth.Scopes = slices.Clone(c.Kafka.SASL.OAuth.Scopes)
	shown.Kafka.SASL.OAuth.Extensions = slices.Clone(c.Kafka.SASL.OAuth.Extensions)
	shown.Kafka.Lanes = slices.Clone(c.Kafka.Lanes)
	for i := range shown.Kafka.Lanes {
		shown.Kafka.Lanes[i].Topics = slices.Clone(shown.Kafka.Lanes[i].Topics)
	}
	shown.Redis.Addrs = slices.Clone(c.Redis.Addrs)
	shown.Limits = slices.Clone(c.Limits)
	shown.Sender.HTTP.Results = maps.Clone(c.Sender.HTTP.Results)
	shown.Sender.HTTP.Headers = maps.Clone(c.Sender.HTTP.Headers)
	shown.eachText(func(path string, secret bool, text string) string {
		written, referred := c.written[path]
		switch {
		case referred && secret:
			return references(written)
		case referred:
			return asWritten(path, written)
		case secret && text != "", addressKey(path) && mayHoldSecret(text):
			return redacted
		case isURL(path):
			return redactURL(text)
		}
		return text
	})
	return shown
}

// addressKey says that an address is wanted, where people put URLs by mistake.
func addressKey(path string) bool {
	return strings.HasPrefix(path, "redis.addrs.") || strings.HasPrefix(path, "kafka.brokers.") || path == "admin.listen"
}

// mayHoldSecret says that a text looks like a URL with a place for a secret in it.
func mayHoldSecret(text string) bool { return strings.ContainsAny(text, "@?") }

// asWritten shows a text with references that isn't a secret as a whole.
func asWritten(path, written string) string {
	switch {
	case !mayHoldSecret(written):
		return written
	case isURL(path):
		return redactURL(written)
	}
	return references(written)
}

// references keeps the references of a text and blots out what is around them.
func references(written string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(written, "${")
		if before != "" {
			out.WriteString(redacted)
		}
		if !found {
			return out.String()
		}
		reference, rest, _ := strings.Cut(after, "}")
		if strings.HasSuffix(before, "$") { // an escape: the text is literal
			written = after
			continue
		}
		out.WriteString("${" + reference + "}")
		written = rest
	}
}

// redactURL blots out user information and the values of telling parameters,
// but for references. Of what is no URL, nothing else is left.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || (u.Host == "" && mayHoldSecret(text)) { // a user without a scheme isn't seen as one
		return references(text)
	}
	if u.User != nil {
		u.User = url.User(redacted)
	}
	query, err := url.ParseQuery(u.RawQuery)
	touched := err != nil // and what can't be read is left out
	for name, values := range query {
		for i, value := range values {
			if shown := references(value); secretHeader(name) && shown != value {
				values[i], touched = shown, true
			}
		}
	}
	if !touched && u.User == nil {
		return text
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// secretHeader says that the name of a header, or of a URL's parameter, suggests
// a secret. It guesses wide:
// a harmless value that is not shown costs less than a key that is.
func secretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, telling := range []string{"auth", "key", "token", "secret", "pass", "pwd", "sig", "cookie", "credential"} {
		if strings.Contains(name, telling) {
			return true
		}
	}
	return false
}

// eachText calls replace with every text of the config and puts its answer there.
func (c *Config) eachText(replace func(path string, secret bool, text string) string) {
	eachText(reflect.ValueOf(c).Elem(), schema(), "", replace)
}

func eachText(section reflect.Value, fields []field, prefix string, replace func(string, bool, string) string) {
	for _, f := range fields {
		path, v := prefix+f.name, section.FieldByIndex(f.index)
		switch {
		case f.isSection():
			eachText(v, f.sub, path+".", replace)
		case f.isSections():
			for j := range v.Len() {
				eachText(v.Index(j), f.sub, path+"."+strconv.Itoa(j)+".", replace)
			}
		case f.isHeaders():
			for _, name := range v.MapKeys() {
				text := replace(path+"."+name.String(), secretHeader(name.String()), v.MapIndex(name).String())
				v.SetMapIndex(name, reflect.ValueOf(text))
			}
		case f.typ.Kind() == reflect.Slice:
			for j := range v.Len() {
				v.Index(j).SetString(replace(path+"."+strconv.Itoa(j), f.secret, v.Index(j).String()))
			}
		case f.typ.Kind() == reflect.String:
			v.SetString(replace(path, f.secret, v.String()))
		}
	}
}
