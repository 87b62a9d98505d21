package corpus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/management/docsearch"
)

// operation has the texts of an operation in the OpenAPI description.
type operation struct {
	ID          string   `json:"operationId"`
	Summary     string   `json:"summary"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Parameters  []struct {
		Name        string `json:"name"`
		In          string `json:"in"`
		Description string `json:"description"`
	} `json:"parameters"`
	Body struct {
		Content map[string]struct {
			Schema schema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

type schema struct {
	Ref         string            `json:"$ref"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
}

// commonParameters are parameters that many operations have.
// They do not help to find an operation, so passages omit them.
var commonParameters = []string{"Idempotency-Key", "If-Match", "If-None-Match", "limit", "offset"}

// methods are the methods of operations, in the order of their passages.
var methods = []string{"get", "post", "put", "patch", "delete"}

// Operations returns the passages of the operations in an OpenAPI description, ordered by path.
func Operations(document []byte) ([]docsearch.Passage, error) {
	var openAPI struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &openAPI); err != nil {
		return nil, err
	}
	var all []docsearch.Passage
	for _, path := range sortedKeys(openAPI.Paths) {
		for _, method := range methods {
			encoded, exists := openAPI.Paths[path][method]
			if !exists {
				continue
			}
			var op operation
			if err := json.Unmarshal(encoded, &op); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			blocks := []string{op.Summary + ": `" + strings.ToUpper(method) + " " + path + "`"}
			if op.Description != "" {
				blocks = append(blocks, op.Description)
			}
			for _, p := range op.Parameters {
				if p.In != "path" && p.Description != "" && !slices.Contains(commonParameters, p.Name) {
					blocks = append(blocks, "`"+p.Name+"` ("+p.In+") | "+p.Description)
				}
			}
			for _, content := range sortedKeys(op.Body.Content) {
				body := op.Body.Content[content].Schema
				if name, isRef := strings.CutPrefix(body.Ref, "#/components/schemas/"); isRef {
					body = openAPI.Components.Schemas[name]
				}
				for _, field := range sortedKeys(body.Properties) {
					if fieldText := body.Properties[field].Description; fieldText != "" {
						blocks = append(blocks, "`"+field+"` (body) | "+fieldText)
					}
				}
			}
			title := strings.Join(append(append([]string{"API"}, op.Tags...), op.Summary), " › ")
			all = append(all, pack(docsearch.Passage{Title: title, Path: OpenAPIFile, Anchor: op.ID}, blocks)...)
		}
	}
	return all, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
