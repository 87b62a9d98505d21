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

	"github.com/gatewright/gatewright/thirdparty"
)

// Bill is the software bill of materials of a Go binary, as CycloneDX in JSON
// (https://cyclonedx.org/docs/1.6/json/): the modules that the linker has put into it, with
// their versions and their sums, and Go's own library. It is read out of the binary, so that it
// names what is in there and nothing that was only at hand. Libraries of which the repository has a
// changed copy are named by the release that they are a copy of. version is the product's, "" for none.
//
// It has neither a time nor a serial number: the same binary has the same bill.
func Bill(binary, version string) ([]byte, error) {
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
	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	refs := []string{parts[0].BOMRef}
	for _, m := range info.Deps {
		part, err := module(m)
		if err != nil {
			return nil, err
		}
		parts, refs = append(parts, part), append(refs, part.BOMRef)
	}
	for _, c := range thirdparty.Copies() {
		// The names of functions are in every Go binary, also in a stripped one.
		if bytes.Contains(raw, []byte(c.ImportPath()+".")) {
			part := changedCopy(c)
			parts, refs = append(parts, part), append(refs, part.BOMRef)
		}
	}
	bill := cyclonedx.NewBOM()
	bill.Metadata = &cyclonedx.Metadata{Component: &main}
	bill.Components = &parts
	bill.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cyclonedx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write a bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// component is a module of a version by its package URL
// (https://github.com/package-url/purl-spec, type golang).
func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	purl := "pkg:golang/" + path
	if version != "" {
		purl += "@" + strings.ReplaceAll(version, "+", "%2B")
	}
	return cyclonedx.Component{BOMRef: purl, Type: kind, Name: path, Version: version, PackageURL: purl}
}

// changedCopy is a library that was linked as a changed copy. Scanners look for the release in it.
func changedCopy(c thirdparty.Copy) cyclonedx.Component {
	part := component(cyclonedx.ComponentTypeLibrary, c.Module, c.Version)
	part.Pedigree = &cyclonedx.Pedigree{Notes: "A copy of this release with changes: " + c.ImportPath()}
	return part
}

// module is a module that was linked: where another stands in for it, that one. Its hash is the
// one of go.sum, which is of the module's whole tree (https://go.dev/ref/mod#go-sum-files).
func module(m *debug.Module) (cyclonedx.Component, error) {
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
