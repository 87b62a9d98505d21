// Package thirdparty lists the libraries that the repository contains as changed copies, each in a separate folder
// below this one. A program links the copy instead of the module, so the program that writes a bill of materials reads
// this list.
//
// It is not for libraries that can be used as they are released: those are modules in go.mod. A copy is derived, never
// edited: thirdparty_test.go makes it from the module that go.mod requires and a list of edits, and compares both. After a
// change of the module's version or of an edit, `go test ./shared/thirdparty -update` writes the copy.
//
// The reason for the copy: docs/decisions/0072-the-json-schema-library-is-a-changed-copy.md. There is only this file.
package thirdparty

// Root is the import path of the folder with all copies.
const Root = "github.com/gatewright/gatewright/shared/thirdparty"

// Copy is a library that the repository contains as a changed copy.
type Copy struct {
	// Folder is the folder of the copy below this package. It contains the library's license.
	Folder string
	// Module and Version name the release that the copy is made from. go.mod requires the same version.
	Module, Version string
}

// Copies returns all changed copies.
func Copies() []Copy {
	return []Copy{{Folder: "jsonschema", Module: "github.com/santhosh-tekuri/jsonschema/v6", Version: "v6.0.3"}}
}

// ImportPath returns the import path of the copy's main package.
func (c Copy) ImportPath() string { return Root + "/" + c.Folder }
