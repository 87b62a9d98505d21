package builds_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/dataplane/builds"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// TestMain makes garbage collections less frequent, because simulations create thousands of short-lived fixtures.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// routes is a valid file of a project, with one route.
const routes = `{
	"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
	"paths": {"/": {"get": {"responses": {"200": {"description": "d"}}, "x-gateway-route": {
		"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
			"options": {"baseUrl": "https://example.com"}}
	}}}}
}`

type files map[string]string

// archive packs files. The same files always result in the same bytes.
func archive(content files) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		// Writes to memory do not fail.
		_ = w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content[name]))})
		_, _ = w.Write([]byte(content[name]))
	}
	_ = w.Close()
	_ = z.Close()
	return b.Bytes()
}

// rootKey is a source with the root key root.
type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) { return root[:], nil }

// root is a variable because the sealer compares the addresses of keys.
var root = [seal.KeyBytes]byte{4, 5, 6}

// lenientCatalog is a catalog that accepts everything.
type lenientCatalog struct{}

func (lenientCatalog) CheckHandler(project.Component) []project.Problem { return nil }
func (lenientCatalog) CheckPolicy(project.Policy) []project.Problem     { return nil }
func (lenientCatalog) UsedVariables(project.Policy) []string            { return nil }

func (lenientCatalog) Members(project.Policy) (names []string, expands bool) { return nil, false }

func (lenientCatalog) CheckMembers(project.Policy, []project.Policy) []project.Problem { return nil }

func (lenientCatalog) Unprotected(project.SecurityScheme, []string, []project.Policy) string {
	return ""
}

func (lenientCatalog) WarnInbound([]project.Policy) map[int]string { return nil }

// Validates implements project.Catalog.
func (lenientCatalog) WarnDescribed(project.Policy, *project.RequestDescription, project.ResponseDescription) string {
	return ""
}

func (lenientCatalog) Validates(string) (request, responses bool) { return false, false }

func (lenientCatalog) PolicyModule(string) string { return "$import(@gatewright/runtime)" }

func (lenientCatalog) CredentialHeader(project.Policy) string { return "" }

func (lenientCatalog) IsReservedHeader(string) bool { return false }

// verify accepts every artifact.
func verify(context.Context, *project.Artifact) []project.Problem { return nil }

// TestDefinitionsMatchGolden compares the states of all operations with a golden file, so that a reviewer sees changes.
func TestDefinitionsMatchGolden(t *testing.T) {
	var b strings.Builder
	for _, d := range builds.New(builds.Options{}).Definitions() {
		b.WriteString(d.String())
		b.WriteString("\n")
	}
	golden.Equal(t, "testdata/definitions.md", strings.TrimRight(b.String(), "\n")+"\n")
}
