package corpus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/docsearch"
)

// described is what the OpenAPI description says of an operation, a field or a header in words.
type described struct {
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

// everywhere are parameters that say nothing about their operation, as those of its path.
var everywhere = []string{"Idempotency-Key", "If-Match", "If-None-Match", "limit", "offset"}

// methods are those of an operation, in the order in which the passages have them.
var methods = []string{"get", "post", "put", "patch", "delete"}

// Operations gives the passages of the operations of an OpenAPI description, by their paths.
func Operations(document []byte) ([]docsearch.Passage, error) {
	var description struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &description); err != nil {
		return nil, err
	}
	var all []docsearch.Passage
	for _, path := range sorted(description.Paths) {
		for _, method := range methods {
			encoded, there := description.Paths[path][method]
			if !there {
				continue
			}
			var op described
			if err := json.Unmarshal(encoded, &op); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			blocks := []string{op.Summary + ": `" + strings.ToUpper(method) + " " + path + "`"}
			if op.Description != "" {
				blocks = append(blocks, op.Description)
			}
			for _, p := range op.Parameters {
				if p.In != "path" && p.Description != "" && !slices.Contains(everywhere, p.Name) {
					blocks = append(blocks, "`"+p.Name+"` ("+p.In+") | "+p.Description)
				}
			}
			for _, content := range sorted(op.Body.Content) {
				body := op.Body.Content[content].Schema
				if name, named := strings.CutPrefix(body.Ref, "#/components/schemas/"); named {
					body = description.Components.Schemas[name]
				}
				for _, field := range sorted(body.Properties) {
					if said := body.Properties[field].Description; said != "" {
						blocks = append(blocks, "`"+field+"` (body) | "+said)
					}
				}
			}
			title := strings.Join(append(append([]string{"API"}, op.Tags...), op.Summary), " › ")
			all = append(all, pack(docsearch.Passage{Title: title, Path: OpenAPI, Anchor: op.ID}, blocks)...)
		}
	}
	return all, nil
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
