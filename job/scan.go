package job

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanID finds the top-level "id" of a JSON object: a string or a number, the
// first one if there are several. It returns "" if there is none, or if the value is no
// object or not well formed up to the id. It does not check the rest: only the
// provider needs that.
func scanID(value []byte) (string, error) {
	s := scanner{b: value}
	if s.space(); !s.take('{') {
		return "", nil
	}
	for s.space(); s.at() == '"'; s.space() {
		key, ok := s.str()
		if s.space(); !ok || !s.take(':') {
			return "", nil
		}
		s.space()
		if name, ok := unescape(key); ok && string(name) == "id" {
			return s.id()
		}
		if !s.skip() {
			return "", nil
		}
		if s.space(); !s.take(',') {
			return "", nil
		}
	}
	return "", nil
}

// unescape decodes the inside of a JSON string; one without escapes is returned as it is.
// It refuses escapes in invalid text, such as half of a surrogate pair: the library
// replaces all of that by one character, which would make two ids equal.
func unescape(inside []byte) ([]byte, bool) {
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside, true
	}
	var text string
	quoted := append(append([]byte{'"'}, inside...), '"')
	if json.Unmarshal(quoted, &text) != nil {
		return nil, false
	}
	return []byte(text), utf8.Valid(inside) && Paired(inside)
}

// Paired reports whether all surrogates that well-formed JSON escapes are halves of pairs. The
// library decodes each other one as the same character.
func Paired(inside []byte) bool {
	for i := 0; i < len(inside); i++ {
		if inside[i] != '\\' {
			continue
		}
		first, ok := unit(inside[i:])
		if !ok {
			i++ // another escape
			continue
		}
		i += 5
		if !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := unit(inside[i+1:])
		if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
			return false
		}
		i += 6
	}
	return true
}

// unit reads an escape of the form \uXXXX.
func unit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil //nolint:gosec // 16 bits
}

// scanner reads JSON without decoding it. Its methods leave i after the part they read.
// Past the end, at is 0, which no JSON holds outside a string.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) at() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.at() != c {
		return false
	}
	s.i++
	return true
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// str reads a string and returns its inside, still escaped.
func (s *scanner) str() ([]byte, bool) {
	s.i++
	from := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			s.i++
			return s.b[from : s.i-1], true
		case '\\':
			s.i++
		}
		s.i++
	}
	s.i = len(s.b)
	return nil, false
}

// skip passes over one value. Depth is a count, not a stack: which bracket
// closes which does not matter for finding the next key of the top level.
func (s *scanner) skip() bool {
	for depth := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			if _, ok := s.str(); !ok {
				return false
			}
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			if depth == 0 {
				return true
			}
			depth--
			s.i++
		case ',':
			if depth == 0 {
				return true
			}
			s.i++
		default:
			s.i++
			continue
		}
		if depth == 0 {
			return true
		}
	}
	return false
}

// id reads the value of the id.
func (s *scanner) id() (string, error) {
	if c := s.at(); c != '"' {
		return s.number()
	}
	inside, ok := s.str()
	if !ok {
		return "", nil
	}
	text, ok := unescape(inside)
	if !ok {
		return "", broken("id", "is not a well-formed string")
	}
	return string(text), checkText("id", text, MaxIDBytes)
}

// number reads a number as it is written; "" when it is none.
func (s *scanner) number() (string, error) {
	from := s.i
	for s.i < len(s.b) && strings.IndexByte("+-.0123456789eE", s.b[s.i]) >= 0 {
		s.i++
	}
	text := s.b[from:s.i]
	if !json.Valid(text) {
		return "", nil
	}
	return string(text), checkText("id", text, MaxIDBytes)
}
