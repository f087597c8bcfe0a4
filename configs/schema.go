package configs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// field is one key: where it is, and what may stand there.
type field struct {
	name   string
	index  []int // of the struct's field, embedded ones included
	typ    reflect.Type
	secret bool
	sub    []field // the keys of a section, or of each section of a list
}

// schema lists the keys of Config in the order of its fields.
func schema() []field { return fieldsOf(reflect.TypeFor[Config]()) }

func fieldsOf(t reflect.Type) []field {
	var fields []field
	for _, sf := range reflect.VisibleFields(t) {
		name := sf.Tag.Get("yaml")
		if name == "" || name == "-" || sf.Anonymous {
			continue
		}
		f := field{name: name, index: sf.Index, typ: sf.Type, secret: sf.Tag.Get("secret") == "true"}
		switch {
		case sf.Type.Kind() == reflect.Struct:
			f.sub = fieldsOf(sf.Type)
		case f.isSections():
			f.sub = fieldsOf(sf.Type.Elem())
		}
		fields = append(fields, f)
	}
	return fields
}

func (f field) isSection() bool { return f.typ.Kind() == reflect.Struct }
func (f field) isHeaders() bool { return f.typ.Kind() == reflect.Map }
func (f field) isResults() bool { return f.typ == reflect.TypeFor[Results]() }
func (f field) isSections() bool {
	return f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Struct
}

func find(fields []field, name string) (field, bool) {
	for _, f := range fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// lookup follows a path to the one value it names. A step into a list is its
// index, a step into headers any name.
func lookup(path []string) (field, error) {
	fields := schema()
	for i := 0; i < len(path); i++ {
		f, ok := find(fields, path[i])
		if !ok {
			return field{}, unknownKey(path, paths(schema(), ""))
		}
		rest := path[i+1:]
		switch {
		case f.isSection():
			fields = f.sub
			continue
		case f.isSections() && len(rest) == 2:
			if _, err := strconv.ParseUint(rest[0], 10, 8); err != nil {
				return field{}, fmt.Errorf("%s: %q is not the place of an entry: write %s.0.%s", strings.Join(path, "."), rest[0], f.name, rest[1])
			}
			fields, i = f.sub, i+1
			continue
		case f.isHeaders() && len(rest) >= 1:
			// A header's name may hold dots, so all that is left is the name.
			return field{name: strings.Join(rest, "."), typ: f.typ.Elem(), secret: secretHeader(strings.Join(rest, "."))}, nil
		case len(rest) == 0 && !f.isSections() && !f.isHeaders():
			return f, nil
		}
		return field{}, unknownKey(path, paths(schema(), ""))
	}
	return field{}, fmt.Errorf("%s: is a section; name one of its keys", strings.Join(path, "."))
}

// paths lists every path that takes a value; 0 stands for any place in a list
// and NAME for any header.
func paths(fields []field, prefix string) []string {
	var all []string
	for _, f := range fields {
		switch {
		case f.isSection():
			all = append(all, paths(f.sub, prefix+f.name+".")...)
		case f.isSections():
			all = append(all, paths(f.sub, prefix+f.name+".0.")...)
		case f.isHeaders():
			all = append(all, prefix+f.name+".NAME")
		default:
			all = append(all, prefix+f.name)
		}
	}
	return all
}

// parse reads text from the environment or the command line as the field's type.
func (f field) parse(path, text string) (any, error) {
	shown := show(text)
	if f.secret {
		shown = redacted
	}
	switch {
	case f.typ == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		return d, wants(err, path, shown, "a duration with a unit, such as 200ms")
	case f.typ.Kind() == reflect.Int || f.typ.Kind() == reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, wants(err, path, shown, "a whole number")
	case f.typ.Kind() == reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		return n, wants(err, path, shown, "a number")
	case f.typ.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		return b, wants(err, path, shown, "true or false")
	case f.typ.Kind() == reflect.Slice:
		return splitList(text), nil
	}
	return text, nil
}

func wants(err error, path, shown, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: must be %s", path, shown, what)
}

// splitList reads "a, b" as two elements, and nothing as none.
func splitList(text string) []string {
	list := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// show makes a value fit for an error: quoted, on one line, not too long.
func show(text string) string {
	const most = 80
	if len(text) > most {
		return strconv.Quote(text[:most]) + "…"
	}
	return strconv.Quote(text)
}
