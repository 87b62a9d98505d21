package image

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/gatewright/gatewright/shared/thirdparty"
)

// SBOM returns the software bill of materials of a Go binary, as CycloneDX in JSON
// (https://cyclonedx.org/docs/1.6/json/). It has the modules that the linker has included, with their versions and
// hashes, and Go's standard library. SBOM reads the binary, so that the bill names exactly what the binary contains. A
// library that is linked as a changed copy (shared/thirdparty) has the version of the original release. version is the
// product's version, or "".
//
// The bill has neither a time nor a serial number, so that the same binary always has the same bill.
func SBOM(binary, version string) ([]byte, error) {
	raw, err := os.ReadFile(binary) //nolint:gosec // G304: what make has built
	if err != nil {
		return nil, fmt.Errorf("read a binary: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%s says of no modules what it is made of: build it with Go's modules: %w", binary, err)
	}
	sum := sha256.Sum256(raw)
	main := component(cyclonedx.ComponentTypeApplication, info.Main.Path, version)
	main.Name = cmp.Or(info.Path, info.Main.Path)
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	main.Properties = &[]cyclonedx.Property{}
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" || s.Key == "-tags" {
			*main.Properties = append(*main.Properties, cyclonedx.Property{Name: "build:" + s.Key, Value: s.Value})
		}
	}
	components := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std",
		strings.TrimPrefix(info.GoVersion, "go"))}
	refs := []string{components[0].BOMRef}
	for _, m := range info.Deps {
		part, err := moduleComponent(m)
		if err != nil {
			return nil, err
		}
		components, refs = append(components, part), append(refs, part.BOMRef)
	}
	for _, c := range thirdparty.Copies() {
		// Every Go binary contains the names of its functions, even a stripped one.
		if bytes.Contains(raw, []byte(c.ImportPath()+".")) {
			part := copyComponent(c)
			components, refs = append(components, part), append(refs, part.BOMRef)
		}
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom,
		cyclonedx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write a bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// component returns the CycloneDX component of a module version, with its package URL
// (https://github.com/package-url/purl-spec, type golang).
func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	purl := "pkg:golang/" + path
	if version != "" {
		purl += "@" + strings.ReplaceAll(version, "+", "%2B")
	}
	return cyclonedx.Component{BOMRef: purl, Type: kind, Name: path, Version: version, PackageURL: purl}
}

// copyComponent returns the component of a library that was linked as a changed copy. It has the version of the
// original release, for which scanners look.
func copyComponent(c thirdparty.Copy) cyclonedx.Component {
	part := component(cyclonedx.ComponentTypeLibrary, c.Module, c.Version)
	part.Pedigree = &cyclonedx.Pedigree{Notes: "A copy of this release with changes: " + c.ImportPath()}
	return part
}

// moduleComponent returns the component of a linked module, or of the module that replaces it. The component's hash is
// that of go.sum, which covers the module's whole tree (https://go.dev/ref/mod#go-sum-files).
func moduleComponent(m *debug.Module) (cyclonedx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	c := component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version)
	if m.Sum == "" {
		return c, nil
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil {
		return cyclonedx.Component{}, fmt.Errorf("read the sum of %s: %w", m.Path, err)
	}
	c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return c, nil
}
