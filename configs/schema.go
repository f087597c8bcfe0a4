package configs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"dispatcher/internal/clip"
)

// field is one key of a section.
type field struct {
	name   string
	index  []int // of the struct's field
	typ    reflect.Type
	secret bool
}

// fieldsOf lists the keys of a section in the order of its struct.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for _, sf := range reflect.VisibleFields(t) {
		if name := sf.Tag.Get("yaml"); name != "" && name != "-" && !sf.Anonymous {
			fields = append(fields, field{name: name, index: sf.Index, typ: sf.Type, secret: sf.Tag.Get("secret") == "true"})
		}
	}
	return fields
}

func (f field) isSection() bool { return f.typ.Kind() == reflect.Struct }
func (f field) isMapping() bool { return f.typ.Kind() == reflect.Map }
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

// lookup follows a path to the one value it names. A step into a list is the place
// of an entry, a step into a mapping any name.
func lookup(path []string) (field, error) {
	section := reflect.TypeFor[Config]()
	for i := 0; i < len(path); i++ {
		f, ok := find(fieldsOf(section), path[i])
		rest := path[i+1:]
		switch {
		case !ok:
			return field{}, unknownKey(path)
		case f.isSection():
			section = f.typ
			continue
		case f.isSections() && len(rest) == 2:
			if _, err := strconv.ParseUint(rest[0], 10, 8); err != nil {
				return field{}, fmt.Errorf("%s: %q is not the place of an entry: write %s.0.%s", strings.Join(path, "."), rest[0], f.name, rest[1])
			}
			section, i = f.typ.Elem(), i+1
			continue
		case f.isMapping() && len(rest) >= 1:
			// A header's name may hold dots, so all that is left is the name.
			name := strings.Join(rest, ".")
			return field{name: name, typ: f.typ.Elem(), secret: f.secret || secretHeader(name)}, nil
		case len(rest) == 0 && !f.isSections() && !f.isMapping():
			return f, nil
		}
		return field{}, unknownKey(path)
	}
	return field{}, fmt.Errorf("%s: is a section; name one of its keys", strings.Join(path, "."))
}

// paths lists every path that takes a value; 0 stands for any place in a list
// and NAME for any name in a mapping.
func paths() []string { return pathsOf(reflect.TypeFor[Config](), "") }

func pathsOf(section reflect.Type, prefix string) []string {
	var all []string
	for _, f := range fieldsOf(section) {
		switch {
		case f.isSection():
			all = append(all, pathsOf(f.typ, prefix+f.name+".")...)
		case f.isSections():
			all = append(all, pathsOf(f.typ.Elem(), prefix+f.name+".0.")...)
		case f.isMapping():
			all = append(all, prefix+f.name+".NAME")
		default:
			all = append(all, prefix+f.name)
		}
	}
	return all
}

// fromText reads text from the environment or the command line as YAML would: text
// that is no value of the field's type stays text, which the checker refuses.
func (f field) fromText(text string) any {
	var value any
	var err error
	if f.typ == reflect.TypeFor[time.Duration]() {
		return text
	}
	switch f.typ.Kind() { //nolint:exhaustive // no setting has another kind
	case reflect.Int, reflect.Int64:
		value, err = strconv.ParseInt(text, 10, 64)
	case reflect.Float64:
		value, err = strconv.ParseFloat(text, 64)
	case reflect.Bool:
		value, err = strconv.ParseBool(text)
	case reflect.Slice:
		return splitList(text)
	default:
		return text
	}
	if err != nil {
		return text
	}
	return value
}

// splitList reads "a, b" as two entries, and nothing as none.
func splitList(text string) []any {
	list := []any{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// show makes text fit for an error: quoted, on one line, not too long.
func show(text string) string {
	const most = 80
	return clip.Quoted(text, most)
}
