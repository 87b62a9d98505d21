package project_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/project"
)

// FuzzArchive looks for archives that make Unpack panic, return both
// files and problems, or keep more bytes than the limits allow.
func FuzzArchive(f *testing.F) {
	good := newArchive(f, file("config/routes.oas.json", "{}"), file("config/policies.json", "{}"),
		file("modules/a.js", "x"))
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...))
	f.Add(good[:len(good)/2])
	for _, h := range []*tar.Header{
		{Name: "config/routes.oas.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "../x", Typeflag: tar.TypeReg},
		{Name: "/x", Typeflag: tar.TypeReg},
		{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"A.b": strings.Repeat("x", 2_000)}},
		{Name: strings.Repeat("d/", 100), Typeflag: tar.TypeDir, Format: tar.FormatGNU},
		{Name: "é", Typeflag: tar.TypeReg, Format: tar.FormatPAX, PAXRecords: map[string]string{"GATEWRIGHT.x": "1"}},
	} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		if err := w.WriteHeader(h); err != nil {
			f.Fatal(err)
		}
		_, _ = w.Close(), z.Close()
		f.Add(b.Bytes())
	}
	limits := project.DefaultLimits()
	limits.CompressedBytes, limits.UnpackedBytes, limits.ConfigBytes, limits.FileBytes, limits.RatioAfter = 1<<20, 4<<20,
		64<<10, 32<<10, 1<<20
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		files, problems, err := project.Unpack(ctx, bytes.NewReader(data), limits)
		if err != nil {
			t.Fatalf("Unpack() error = %v, want none", err)
		}
		if (files == nil) != (len(problems) > 0) {
			t.Fatalf("Unpack() = files %v, problems %v, want one of them", files, problems)
		}
		kept := 0
		for name, content := range files {
			if kept += len(content); strings.Contains(name, "..") || int64(len(content)) > limits.FileBytes ||
				int64(kept) > limits.ConfigBytes {
				t.Fatalf("kept file %q with %d bytes, want no \"..\", at most %d bytes and %d in all",
					name, len(content), limits.FileBytes, limits.ConfigBytes)
			}
		}
	})
}

// FuzzOpenAPI looks for documents that make the compiler panic, run endlessly or report more
// problems than allowed. It tries small documents, and documents that are checked in parts.
func FuzzOpenAPI(f *testing.F) {
	for _, seed := range []string{
		`"paths": {"/a": {"get": {"responses": {"200": {"description": "d"}}}}}`,
		`"paths": {}, "components": {"schemas": {"a": {"allOf": [{"$ref": "#/components/schemas/a"},` +
			` {"not": {"oneOf": [1]}}]}}}`,
		`"paths": {"/{a}/{a}": {"parameters": [{"name": "a", "in": "path"}, {"name": "a", "in": "path"}]}}`,
		`"paths": {"/(a{1000})": {"x-gateway-path": {"pathMode": "url-pattern"},` +
			` "get": {"x-gateway-route": {"handler": {"export": "x", "module": "$import(@gatewright/runtime)",` +
			` "options": {"baseUrl": "$env(FIRST)${env.FIRST}"}}}}}}`,
		`"paths": {}, "x-a": [1e308, -0, 1e999999999, "` + strings.Repeat("x", 100) + `"]`,
		`"paths": {"a": 1, "/b": {"callbacks": {}}}, "webhooks": {"a": []}, "tags": [1, 1]`,
		`"paths": {"/a": {"$ref": "#/paths/~1b", "query": 1}, "/b": {"$ref": "#/components/pathItems/a"},` +
			` "/c#": {"$ref": 1}},` +
			` "components": {"pathItems": {"a": {"$ref": "#/paths/~1a", "additionalOperations": {"COPY": {}, "get": 1}}}}`,
	} {
		f.Add("3.0.3", seed, uint16(0))
		f.Add("3.1.0", seed, uint16(1))
		f.Add("3.2.0", seed, uint16(0))
	}
	compiler := project.NewCompiler()
	f.Fuzz(func(t *testing.T, version, members string, extra uint16) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		// Valid entries with a high weight make the compiler check the document in parts.
		heavy := `, "x-gatewright": [` + list(int(extra%2)*60_000+1, "{}") + `]`
		files := documentFiles(members + heavy)
		files["config/routes.oas.json"] = bytes.Replace(files["config/routes.oas.json"], []byte("3.0.3"), []byte(version), 1)
		artifact, result, err := compiler.Compile(ctx, files, project.Input{
			Catalog:   catalog{},
			Variables: map[string]string{"FIRST": "the value"},
		})
		if err != nil {
			t.Fatalf("Compile() error = %v, want none", err)
		}
		if (artifact == nil) != (len(result.Errors) > 0) || len(result.Errors) > 201 || len(result.Warnings) > 201 {
			t.Fatalf("Compile() = artifact: %t, %d errors, %d warnings, want an artifact or errors, and at most 201 of each",
				artifact != nil, len(result.Errors), len(result.Warnings))
		}
		if resultJSON, err := json.Marshal(result); err != nil || len(resultJSON) > 100<<10 {
			t.Fatalf("result = %d bytes, %v, want at most %d and no error", len(resultJSON), err, 100<<10)
		}
	})
}
