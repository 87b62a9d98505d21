// Package openapi is a stub.
package openapi

import (
	"encoding/json"
	"net/http"

	"github.com/gatewright/gatewright/shared/format/project"
)

const (
	InPath   = "path"
	InQuery  = "query"
	InHeader = "header"
	InCookie = "cookie"
	InBody   = "body"
)

type Violation struct {
	In      string `json:"in"`
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

func (v Violation) String() string { return v.In + " " + v.Pointer + ": " + v.Detail }

type Unsupported struct{}

func (*Unsupported) Detail() string { return "" }

type Definitions struct{}

func NewDefinitions(map[string]json.RawMessage) *Definitions { return &Definitions{} }
func (d *Definitions) Operation(*project.RequestDescription, project.ResponseDescription) *Operation {
	return &Operation{}
}

type Operation struct{}

func (*Operation) Compile() error           { return nil }
func (*Operation) HasBody() bool            { return false }
func (*Operation) HasResponseBody(int) bool { return false }

type Request struct {
	Path               func(string) (string, bool)
	Query              string
	Header             http.Header
	RejectUnknownQuery bool
}

func (*Operation) CheckParameters(Request, func(string) bool) []Violation { return nil }
func (*Operation) CheckMissingBody() []Violation                          { return nil }
func (*Operation) CheckBody(string, []byte) ([]Violation, *Unsupported)   { return nil, nil }
func (*Operation) CheckResponseHead(int, http.Header) []Violation         { return nil }
func (*Operation) CheckResponseBody(int, string, []byte) []Violation      { return nil }
