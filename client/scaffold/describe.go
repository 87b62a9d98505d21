package scaffold

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/format/project"
)

// OpenAPI 3.2 adds two members of a path: the operation queryMethod, and additionalOperations, an object of operations
// by their methods.
const (
	queryMethod          = "query"
	additionalOperations = "additionalOperations"
)

// routeMember is the member of an operation that makes it a route.
const routeMember = "x-gateway-route"

// Options are the options of AddRoutes.
type Options struct {
	// Upstream is the address that replaces the description's absolute servers, and against which its relative servers
	// are resolved. It is "" for none. It does not replace absolute servers of paths and operations.
	Upstream string
	// ServerVariables are values of server variables by name. Variables without a value have their defaults.
	ServerVariables map[string]string
	// Folder is the folder that has the description and the files to which its references lead. It is nil if the description
	// is not a file. Name is the name of the description in the folder.
	Folder fs.FS
	Name   string
}

// Routes is a description with routes.
type Routes struct {
	// Text is the description in JSON.
	Text []byte
	// Added is the number of operations that have become routes.
	Added int
	// Policies is the file of the policies that implement the description's security schemes, nil if it needs none.
	Policies []byte
	// Files are the files to which references of the description lead, directly or through other files, by their paths in
	// the project.
	Files map[string][]byte
	// IsSecured reports whether policies implement the security requirements of all operations that have become routes.
	IsSecured bool
	origins   *origins
	// Notes are sentences for the user: which server was chosen, and what a conversion has left out.
	Notes []string
	// SecurityNotes are sentences about the operations that no policy protects, and about routes of the description.
	SecurityNotes []string
}

// AddRoutes adds routes to a description of an API (OpenAPI 3 or Swagger 2.0, in JSON or YAML): each operation without
// a route gets a route that forwards to the operation's path at its server. All other members keep their order,
// except in a description in Swagger 2.0, which is converted to OpenAPI 3.0. Numbers keep their digits. A path that
// refers to another path item, in the description or in another file, gets the operations of this item. Security schemes
// get the names of the policies that implement them (Routes.Policies). Routes of operations with parameters or a body
// validate their requests.
func AddRoutes(description []byte, o Options) (Routes, error) {
	if o.Upstream != "" {
		if err := checkUpstream(o.Upstream); err != nil {
			return Routes{}, err
		}
	}
	out, err := addRoutes(description, o)
	if exit.CodeOf(err) == exit.Failure {
		err = exit.WithCode(exit.Invalid, err)
	}
	return out, err
}

func addRoutes(description []byte, o Options) (Routes, error) {
	if int64(len(description)) > MaxBytes() {
		return Routes{}, fmt.Errorf("the description has more than %d bytes, the maximum size of a file in a project: "+
			"divide it", MaxBytes())
	}
	d, err := readDocument(description)
	if err != nil {
		return Routes{}, err
	}
	root, err := readMembers(d.value)
	if err != nil {
		return Routes{}, errors.New("the description is no object: write one with openapi, info and paths")
	}
	var notes []string
	files := &sourceFiles{folder: o.Folder, name: cmp.Or(o.Name, defaultName), read: map[string]*sourceFile{}}
	isSwagger := swaggerVersion(root) != ""
	if isSwagger {
		if len(files.referredFiles(files.name, d.value)) > 0 {
			return Routes{}, errSwaggerFiles
		}
		if err := checkSwaggerNames(d); err != nil {
			return Routes{}, err
		}
		if root, notes, err = fromSwagger(root, d); err != nil {
			return Routes{}, err
		}
	}
	version := stringValue(memberValue(root, "openapi"))
	if !strings.HasPrefix(version, "3.") {
		return Routes{}, errors.New("this is no description in OpenAPI 3 or Swagger 2.0: set its member openapi to its " +
			"version, such as \"3.1.0\"")
	}
	from := &origins{document: d, text: description, files: files, operations: map[string]origin{}}
	t := newTargets(root)
	if isSwagger {
		from.converted = t
	}
	d.origin = from.pointer
	r := &router{
		document: d, version: version, targets: t,
		operationIDs: map[string]bool{}, notes: notes, files: files, origins: from,
		servers: servers{
			document: d, upstream: o.Upstream, variables: o.ServerVariables, used: map[string]bool{},
			lists: map[string]*serverList{}, places: map[string]*serverList{},
		},
	}
	r.security = readSchemeSecurity(r.targets)
	for i, m := range root {
		if m.name == "paths" {
			if root[i].value, err = r.paths(m.value); err != nil {
				return Routes{}, err
			}
		}
	}
	if r.added == 0 {
		return Routes{}, errors.New("the description has no operation that needs a route: it has none at all, or each has " +
			"an x-gateway-route already")
	}
	if err := r.servers.checkVariables(); err != nil {
		return Routes{}, err
	}
	if more := r.removedIDs - maxIDNotes; more > 0 {
		r.notes = append(r.notes, fmt.Sprintf("… and %d more copied operations have no operationId", more))
	}
	policies, err := r.security.policiesFile()
	if err != nil {
		return Routes{}, err
	}
	root = r.security.setPolicyNames(root)
	copies, err := files.copies(writeObject(root), description)
	if err != nil {
		return Routes{}, err
	}
	text, err := indent(root)
	return Routes{
		Text: text, Added: r.added, Policies: policies, Files: copies, IsSecured: len(r.security.unprotected) == 0,
		origins: from,
		Notes:   slices.Concat(r.servers.notes(), r.notes, files.notes), SecurityNotes: r.security.notes(r.added),
	}, err
}

// defaultName is the name of a description that is no file.
const defaultName = "openapi.json"

// router adds routes to the operations of a description.
type router struct {
	document document
	version  string
	targets  *targets
	servers  servers
	security *schemeSecurity
	files    *sourceFiles
	origins  *origins
	// operationIDs are the ids of operations, which are unique.
	operationIDs map[string]bool
	// removedIDs is the number of copied operations that have lost their ids.
	removedIDs  int
	added, size int
	notes       []string
}

// paths returns the paths of the description with routes.
func (r *router) paths(value jsontext.Value) (jsontext.Value, error) {
	all, err := readMembers(value)
	if err != nil {
		return nil, fmt.Errorf("paths of the description: %w", err)
	}
	items := make([][]member, len(all))
	for i, path := range all {
		if !strings.HasPrefix(path.name, "/") {
			continue // the member is an extension
		}
		at := string(jsontext.Pointer("/paths").AppendToken(path.name))
		if items[i], err = readMembers(path.value); err != nil {
			return nil, fmt.Errorf("%s: the path %s of the description: %w", r.document.place(at), path.name, err)
		}
		r.recordIDs(items[i])
	}
	for i, path := range all {
		if items[i] == nil {
			continue
		}
		at := string(jsontext.Pointer("/paths").AppendToken(path.name))
		item, from, err := r.inline(items[i], at, nil)
		for name, place := range from {
			r.origins.operations[string(jsontext.Pointer(at).AppendToken(name))] = place
		}
		if err == nil {
			item, err = r.item(item, path.name, at)
		}
		if err != nil {
			return nil, err
		}
		all[i].value = writeObject(item)
		if r.size += len(all[i].value); int64(r.size) > MaxBytes() {
			return nil, fmt.Errorf("%s: the description would have more than %d bytes with its routes, the maximum size of a "+
				"file in a project: divide it into several", r.document.place(at), MaxBytes())
		}
	}
	return writeObject(all), nil
}

// item returns a path item with routes.
func (r *router) item(item []member, path, at string) ([]member, error) {
	inherited := inheritance{servers: memberValue(r.targets.root, "servers"), serversAt: "/servers"}
	if own := memberValue(item, "servers"); len(readElements(own)) > 0 {
		inherited.servers, inherited.serversAt, inherited.isOwn = own, at+"/servers", true
	}
	inherited.hasInput = len(readElements(memberValue(item, "parameters"))) > 0
	for i, m := range item {
		var err error
		operationAt := string(jsontext.Pointer(at).AppendToken(m.name))
		switch {
		case r.isMethod(m.name):
			item[i].value, err = r.operation(m.value, operationAt, inherited)
		case r.is32() && m.name == additionalOperations:
			operations, readErr := readMembers(m.value)
			if err = readErr; err != nil {
				break
			}
			for j, operation := range operations {
				operationAt := string(jsontext.Pointer(operationAt).AppendToken(operation.name))
				if operations[j].value, err = r.operation(operation.value, operationAt, inherited); err != nil {
					break
				}
			}
			item[i].value = writeObject(operations)
		}
		if err != nil && exit.CodeOf(err) == exit.Failure {
			err = fmt.Errorf("%s: %s of the path %s of the description: %w", r.document.place(operationAt), m.name, path, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return item, nil
}

// is32 reports whether the description is in OpenAPI 3.2.
func (r *router) is32() bool { return strings.HasPrefix(r.version, "3.2") }

func (r *router) isMethod(name string) bool {
	return slices.Contains(project.Methods(), name) && (name != queryMethod || r.is32())
}

// inheritance is what an operation inherits from its path item or from the description.
type inheritance struct {
	// servers has the servers of the path item, or of the description. serversAt is its pointer. isOwn reports whether they
	// are the path item's own.
	servers   jsontext.Value
	serversAt string
	isOwn     bool
	// hasInput reports whether the path item has parameters.
	hasInput bool
}

// operation returns an operation with a route.
func (r *router) operation(value jsontext.Value, at string, inherited inheritance) (jsontext.Value, error) {
	operation, err := readMembers(value)
	if err != nil {
		return value, err
	}
	if memberValue(operation, routeMember) != nil {
		return value, r.security.keep(operation, title(at))
	}
	if servers := memberValue(operation, "servers"); len(readElements(servers)) > 0 {
		inherited.servers, inherited.serversAt, inherited.isOwn = servers, at+"/servers", true
	}
	address, err := r.servers.address(inherited.servers, inherited.serversAt, inherited.isOwn)
	if err != nil {
		return nil, err
	}
	r.added++
	route := `{"handler":{"export":"urlForwardHandler","module":"$import(@gatewright/runtime)","options":{"baseUrl":` +
		string(quote(address)) + `}}`
	names := r.security.inbound(operation, title(at))
	if inherited.hasInput || memberValue(operation, "requestBody") != nil ||
		len(readElements(memberValue(operation, "parameters"))) > 0 {
		names = append(slices.Clone(names), r.security.validation())
	}
	var policies []string
	for _, name := range names {
		policies = append(policies, string(quote(name)))
	}
	if len(policies) > 0 {
		route += `,"policies":{"inbound":[` + strings.Join(policies, ",") + `]}`
	}
	return writeObject(append(operation, member{routeMember, jsontext.Value(route + "}")})), nil
}

// title returns the method and the path of the operation at a pointer, such as GET /items.
func title(at string) string {
	pointer := jsontext.Pointer(at)
	tokens := slices.Collect(pointer.Tokens())
	return project.RequestMethod(pointer.LastToken()) + " " + tokens[1]
}
