package configs

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/sender"
)

// checker compares a YAML tree with the types of [Config]. YAML guesses types
// (cap: 1.5, timeout: 5, password: 0123). Where the guess differs from the field's
// type, the value is refused and not converted: 5 would become 5 ns, and 0123 83.
type checker struct{ faults []error }

// section returns the part of a tree that fits the section's type.
func (c *checker) section(prefix string, t reflect.Type, tree map[string]any) map[string]any {
	fields := fieldsOf(t)
	clean := make(map[string]any, len(tree))
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		f, ok := find(fields, key)
		if !ok {
			c.unknown(prefix, key, fields)
			continue
		}
		if tree[key] == nil {
			continue
		}
		if value := c.value(prefix+key, f, tree[key]); value != nil {
			clean[key] = value
		}
	}
	return clean
}

// unknown records an unknown key. If the key was probably meant to be another one,
// that one's value can't be read.
func (c *checker) unknown(prefix, key string, fields []field) {
	known := make([]string, 0, len(fields))
	for _, f := range fields {
		known = append(known, prefix+f.name)
	}
	err := unknown("unknown key "+show(prefix+key), prefix+key, known)
	meant := nearest(prefix+key, known)
	if f, ok := find(fields, strings.TrimPrefix(meant, prefix)); ok && !f.isSection() && !f.isSections() {
		err = misreadAt(meant, err)
	}
	c.faults = append(c.faults, err)
}

// value returns the field's value, or nil after a fault.
func (c *checker) value(path string, f field, raw any) any {
	if f.typ == reflect.TypeFor[time.Duration]() {
		if text, ok := raw.(string); ok {
			if d, err := time.ParseDuration(text); err == nil {
				return d
			}
		}
		return c.wrong(path, f, raw, "a duration with a unit, such as 200ms")
	}
	switch f.typ.Kind() { //nolint:exhaustive // no setting has another kind
	case reflect.Struct:
		if tree, ok := raw.(map[string]any); ok {
			return c.section(path+".", f.typ, tree)
		}
		return c.wrong(path, f, raw, "a section with keys of its own")
	case reflect.Slice:
		return c.list(path, f, raw)
	case reflect.Map:
		return c.mapping(path, f, raw)
	case reflect.String:
		if text, ok := raw.(string); ok {
			return text
		}
		return c.wrong(path, f, raw, "text; put it in quotes")
	case reflect.Bool:
		if b, ok := raw.(bool); ok {
			return b
		}
		return c.wrong(path, f, raw, "true or false")
	case reflect.Float64:
		if n, ok := raw.(float64); ok {
			return n
		}
		if n, ok := whole(raw); ok {
			return float64(n)
		}
		return c.wrong(path, f, raw, "a number")
	default:
		if n, ok := whole(raw); ok {
			return n
		}
		return c.wrong(path, f, raw, "a whole number")
	}
}

// whole is a whole number as YAML and fromText read it. YAML reads one beyond 63 bits
// as a uint64, which no setting can hold.
func whole(raw any) (int64, bool) {
	switch n := raw.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

// list keeps the places of the entries: one that can't be read is empty.
func (c *checker) list(path string, f field, raw any) any {
	entries, ok := raw.([]any)
	if !ok {
		return c.wrong(path, f, raw, "a list")
	}
	entry := field{typ: f.typ.Elem(), secret: f.secret}
	list := make([]any, len(entries))
	for i := range entries {
		list[i] = c.value(path+"."+strconv.Itoa(i), entry, entries[i])
		switch {
		case list[i] != nil:
		case entry.isSection():
			list[i] = map[string]any{}
		default:
			list[i] = reflect.Zero(entry.typ).Interface()
		}
	}
	return list
}

// mapping reads headers and results. A status may be a number: nobody puts one
// into quotes.
func (c *checker) mapping(path string, f field, raw any) any {
	results := f.typ == reflect.TypeFor[sender.Results]()
	tree, ok := textKeys(raw)
	switch {
	case !ok && results:
		return c.wrong(path, f, raw, "a mapping of statuses to results")
	case !ok:
		return c.wrong(path, f, raw, "a mapping of names to text")
	}
	clean := make(map[string]any, len(tree))
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		at := path + "." + name
		text, ok := tree[name].(string)
		lower := strings.ToLower(name)
		_, twice := clean[lower]
		switch {
		case !ok && results:
			c.wrong(at, field{}, tree[name], "the name of a result")
		case !ok:
			c.wrong(at, field{secret: true}, tree[name], "text; put it in quotes")
		case results:
			clean[name] = text
		case !sender.IsHeaderName(lower):
			c.faults = append(c.faults, misreadAt(at, fmt.Errorf("%s: is no name of a header", show(at))))
		case twice:
			c.faults = append(c.faults, misreadAt(at, fmt.Errorf("%s: stated twice; names are case-insensitive", at)))
		default:
			clean[lower] = text
		}
	}
	return clean
}

// textKeys is a mapping with its keys as text.
func textKeys(raw any) (map[string]any, bool) {
	switch tree := raw.(type) {
	case map[string]any:
		return tree, true
	case map[any]any:
		texts := make(map[string]any, len(tree))
		for key, value := range tree {
			texts[fmt.Sprint(key)] = value
		}
		return texts, true
	}
	return nil, false
}

// wrong records a value of another type than the field's. A secret is not shown.
// It returns nil.
func (c *checker) wrong(path string, f field, raw any, want string) any {
	value := raw
	switch v := raw.(type) {
	case nil:
		value = fault.Phrase("is empty")
	case map[string]any, map[any]any:
		value = fault.Phrase("is a mapping")
	case []any:
		value = fault.Phrase("is a list")
	case string:
		if mayHoldSecret(v) {
			value = fault.Phrase(redacted)
		}
	}
	if f.secret {
		value = fault.Phrase(redacted)
	}
	c.faults = append(c.faults, misreadAt(path, fault.New(path, value, "must be "+want)))
	return nil
}
