package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPI []byte

// documentJSON is the OpenAPI document as JSON.
var documentJSON = sync.OnceValues(func() (json.RawMessage, error) { //nolint:gochecknoglobals // made once, of what never changes
	var doc map[string]any
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return json.Marshal(doc)
})

// document serves the OpenAPI document of this API.
func document(*http.Request) (any, error) { return documentJSON() }
