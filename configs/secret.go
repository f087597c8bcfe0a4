package configs

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"dispatcher/internal/fault"
)

const (
	redacted = "[redacted]"
	urlKey   = "sender.http.url"
	tokenKey = "kafka.sasl.oauth.token_url"
	traceKey = "tracing.endpoint"
)

func isURL(path string) bool { return path == urlKey || path == tokenKey || path == traceKey }

// resolve replaces the references in every text and remembers the text as written.
// It passes each fault to fault. With src.OnlyShown, references that lead nowhere stay.
func (c *Config) resolve(env map[string]string, src Source, fault func(error)) {
	c.written, c.env = map[string]string{}, env
	c.eachText(func(path string, _ bool, text string) string {
		value, err := expand(text, env)
		if err != nil && src.OnlyShown {
			c.written[path] = text
			return text
		}
		spared := src.CallsNobody && leadsNowhere(err) && concerns(path, headerKeys)
		if err != nil && !spared {
			fault(misreadAt(path, fmt.Errorf("%s: %w", path, err)))
		}
		if value != text {
			c.written[path] = text
		}
		return value
	})
}

// Reread returns a function that reads the text at a path again; nil: it refers to no
// file, and never changes. The function may be called from any goroutine. Its error
// names the reference, and never holds its value.
func (c Config) Reread(path string) func() (string, error) {
	written, env := c.written[path], c.env
	if !strings.Contains(written, "${file:") {
		return nil
	}
	return func() (string, error) { return expand(written, env) }
}

// expand replaces ${env:NAME} and ${file:/path}; $${ is a literal ${. References in
// the value of a reference are not replaced. If only references that lead nowhere are at
// fault, expand also returns the rest of the text.
func expand(text string, env map[string]string) (string, error) {
	var out strings.Builder
	var lost error // the first that leads nowhere
	for {
		before, after, found := strings.Cut(text, "${")
		if !found {
			out.WriteString(text)
			return out.String(), lost
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
		if err != nil && !leadsNowhere(err) {
			return "", err
		}
		lost = cmp.Or(lost, err)
		out.WriteString(before + value)
		text = rest
	}
}

// nowhereError says that a reference leads nowhere: on another machine it may be sound.
type nowhereError struct {
	shown string // the reference
	err   error
}

func (e *nowhereError) Error() string { return e.shown + ": " + e.err.Error() }
func (e *nowhereError) Unwrap() error { return e.err }

func leadsNowhere(err error) bool {
	_, ok := errors.AsType[*nowhereError](err)
	return ok
}

func dereference(reference string, env map[string]string) (string, error) {
	shown := "${" + reference + "}"
	kind, name, _ := strings.Cut(reference, ":")
	switch kind {
	case "env":
		value, ok := env[name]
		if !ok {
			return "", &nowhereError{shown, errors.New("the environment has no such variable")}
		}
		return value, nil
	case "file":
		content, err := readFile(name)
		if err != nil {
			return "", &nowhereError{shown, err}
		}
		line := strings.TrimSuffix(string(content), "\n")
		return strings.TrimSuffix(line, "\r"), nil
	}
	// Not shown: without a kind it may be a piece of a password.
	return "", errors.New("a ${…} that is neither ${env:NAME} nor ${file:/path}; write $${ for a literal ${")
}

// Redacted is a copy to be shown to people: references as they were written,
// secrets that stand there literally as [redacted]. Secrets are passwords,
// headers whose name says so, and parts of the URL that usually hold one.
func (c Config) Redacted() Config {
	shown, _ := c.shown()
	return shown
}

// shown is the redacted copy, and the value that a fault shows for each text that
// differs in it, by path.
func (c Config) shown() (Config, map[string]any) {
	values := map[string]any{}
	c.eachText(func(path string, secret bool, text string) string {
		written, referred := c.written[path]
		at := text
		switch {
		case referred && secret:
			at = references(written)
		case referred:
			at = asWritten(path, written)
		case secret && text != "", addressKey(path) && mayHoldSecret(text):
			at = redacted
		case isURL(path):
			at = redactURL(text)
		}
		switch {
		case isURL(path) && !referred:
			values[path] = at
		case at != text:
			values[path] = fault.Phrase(at)
		}
		return at
	})
	return c, values
}

// addressKey tells the keys of addresses, where people put URLs by mistake.
func addressKey(path string) bool {
	return strings.HasPrefix(path, "redis.addrs.") || strings.HasPrefix(path, "kafka.brokers.") || path == "admin.listen"
}

// mayHoldSecret tells whether a text looks like a URL that can hold a secret.
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

// references keeps the references of a text and redacts the text around them.
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

// redactURL redacts user information and the values of parameters that suggest a
// secret, except references. Of a text that is no URL only references are left.
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

// secretHeader tells whether the name of a header, or of a URL's parameter, suggests a
// secret. It guesses wide: hiding a harmless value costs less than showing a key.
func secretHeader(name string) bool {
	name = strings.ToLower(name)
	telling := []string{"auth", "key", "token", "secret", "pass", "pwd", "sig", "cookie", "credential"}
	return slices.ContainsFunc(telling, func(part string) bool { return strings.Contains(name, part) })
}

// eachText puts the answer of replace in the place of every text. It copies lists
// and mappings, which other copies of the config may share.
func (c *Config) eachText(replace func(path string, secret bool, text string) string) {
	section := field{typ: reflect.TypeFor[Config]()}
	section.eachText(reflect.ValueOf(c).Elem(), "", replace)
}

func (f field) eachText(v reflect.Value, path string, replace func(string, bool, string) string) {
	switch f.typ.Kind() { //nolint:exhaustive // no setting has another kind
	case reflect.Struct:
		for _, key := range fieldsOf(f.typ) {
			key.eachText(v.FieldByIndex(key.index), strings.TrimPrefix(path+"."+key.name, "."), replace)
		}
	case reflect.Slice:
		v.Set(reflect.AppendSlice(reflect.MakeSlice(f.typ, 0, v.Len()), v))
		for i := range v.Len() {
			field{typ: f.typ.Elem(), secret: f.secret}.eachText(v.Index(i), path+"."+strconv.Itoa(i), replace)
		}
	case reflect.Map:
		texts := reflect.MakeMap(f.typ)
		for _, name := range v.MapKeys() {
			text := replace(path+"."+name.String(), f.secret || secretHeader(name.String()), v.MapIndex(name).String())
			texts.SetMapIndex(name, reflect.ValueOf(text))
		}
		v.Set(texts)
	case reflect.String:
		v.SetString(replace(path, f.secret, v.String()))
	}
}
