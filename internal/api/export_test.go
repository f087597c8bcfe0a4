package api

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"dispatcher/internal/expression"
	"dispatcher/internal/why"
)

// Patterns are those of all requests that the API serves.
func Patterns() []string { return append(slices.Sorted(maps.Keys((&api{}).routes())), eventsPattern) }

// Bounds that the document has.
const (
	MostLines = mostLines
	MaxJob    = why.MostAsked
	MaxKey    = expression.MaxKeyBytes
)

// Document is the OpenAPI document as it is served.
func Document() ([]byte, error) { return documentJSON() }

// Streams are the streams of events, of what is read like this.
func Streams(read func(context.Context) (any, error)) http.Handler { return newStreams(read) }
