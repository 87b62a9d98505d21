package project

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// place is a value in a document. References in the value are relative to this document.
type place struct {
	doc *document
	// at is the JSON pointer of the value. It is "" for the root, and for a value whose pointer nobody needs.
	at    string
	value any
}

// object returns the value as an object, nil for any other value.
func (p place) object() map[string]any {
	object, _ := p.value.(map[string]any)
	return object
}

// id identifies a place that resolve has returned: it has the file and the pointer.
func (p place) id() string { return p.doc.file + "#" + p.at }

// reference returns the $ref of a value, "" if it is no reference.
func (p place) reference() string {
	target, _ := p.object()["$ref"].(string)
	return target
}

// deref follows the reference of a value, and the references to which it leads. It returns false if a reference cannot be
// followed, which checkObjects reports, after maxReferences, and for a value that is not an object.
func (p place) deref() (place, bool) {
	for range maxReferences {
		object := p.object()
		target, isReference := object["$ref"].(string)
		if !isReference {
			return p, object != nil
		}
		if p, _ = p.doc.resolve(target); p.doc == nil {
			return place{}, false
		}
	}
	return place{}, false
}

// maxReferences is the maximum number of references that deref follows for one value.
const maxReferences = 20

// resolved is the result of resolve for a reference.
type resolved struct {
	place   place
	problem string
}

// resolve returns the place to which a reference in the document leads: in the document itself (#/…, #name), or in
// another file of the project, relative to the document's file. If the reference cannot be followed, the place has no doc,
// and problem says why. problem is "" for a file with mistakes, which are reported at their place.
func (d *document) resolve(reference string) (target place, problem string) {
	if known, ok := d.resolved[reference]; ok {
		return known.place, known.problem
	}
	target, problem = d.follow(reference)
	if d.resolved == nil {
		d.resolved = map[string]resolved{}
	}
	d.resolved[reference] = resolved{target, problem}
	return target, problem
}

// leadsNowhere is the message about a reference to a value that a document does not have.
const leadsNowhere = "This reference leads nowhere. Correct it, or add what it names."

func (d *document) follow(reference string) (place, string) {
	if reference == "" {
		return place{}, leadsNowhere
	}
	file, fragment, _ := strings.Cut(reference, "#")
	doc := d
	if file != "" {
		name, problem := d.fileOf(file)
		if problem != "" {
			return place{}, problem
		}
		if doc = d.compiler.load(name); doc == nil {
			return place{}, ""
		}
	}
	pointerText, isPointer := strings.CutPrefix(fragment, "/")
	switch {
	case fragment == "":
		return place{doc: doc, value: doc.root}, ""
	case !isPointer:
		return doc.anchor(percentDecode(fragment))
	}
	names, value := make([]string, 0, 4), doc.root
	for token := range strings.SplitSeq(pointerText, "/") {
		token = unescapeToken(percentDecode(token))
		child, ok := member(value, token)
		if !ok {
			return place{}, leadsNowhere
		}
		names, value = append(names, token), child
	}
	return place{doc, pointer(names...), value}, ""
}

// member returns the member of an object, or the element of a list, that a token of a pointer names.
func member(value any, token string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		child, ok := v[token]
		return child, ok
	case []any:
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return v[i], true
	}
	return nil, false
}

// anchor returns the place of the schema with an $anchor or a $dynamicAnchor.
func (d *document) anchor(name string) (place, string) {
	if d.anchors == nil {
		d.anchors = map[string]place{}
		d.readAnchors(nil, d.root)
	}
	if found, ok := d.anchors[name]; ok {
		return found, ""
	}
	return place{}, "This reference leads nowhere: no schema of the document has this $anchor. Correct it, or write a " +
		"JSON pointer, such as #/components/schemas/NAME."
}

// readAnchors records the anchors of a value. If several schemas have the same anchor, it records the first one in the
// order of their pointers.
func (d *document) readAnchors(at []string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, keyword := range [...]string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[keyword].(string); ok {
				text := pointer(at...)
				if first, exists := d.anchors[name]; !exists || cmp.Less(text, first.at) {
					d.anchors[name] = place{d, text, v}
				}
			}
		}
		at = append(at, "")
		for name, child := range v {
			at[len(at)-1] = name
			d.readAnchors(at, child)
		}
	case []any:
		at = append(at, "")
		for i, child := range v {
			at[len(at)-1] = strconv.Itoa(i)
			d.readAnchors(at, child)
		}
	}
}

// hasScheme matches the references that are URLs, such as https://example.com/pet.json and urn:example:pet.
var hasScheme = lazy.Regexp(`^([A-Za-z][A-Za-z0-9+.-]*:|//)`)

// isURLReference reports whether a reference is a URL. A build follows no URLs. checkObjects reports a URL as an error for a
// path item, and otherwise as a warning.
func isURLReference(reference string) bool { return hasScheme().MatchString(reference) }

// fileOf returns the path of the project's file to which a reference leads. file is the reference without its fragment. If
// there is no such file, or if it is not read, fileOf returns an error text.
func (d *document) fileOf(file string) (name, problem string) {
	if isURLReference(file) {
		return "", "This reference is a URL, and a build reads only the files of the project. Put the document into the " +
			"project, and refer to it by a path relative to this file, such as ./schemas/pet.json."
	}
	if file = percentDecode(file); strings.HasPrefix(file, "/") || strings.Contains(file, `\`) {
		return "", "This reference is not a relative path. Write the path of the file relative to this one, with slashes, " +
			"such as ./schemas/pet.json."
	}
	name = path.Join(path.Dir(d.file), file)
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", "This reference leads out of the project's folder. Put the file into the folder, and refer to it there."
	}
	d.compiler.referredFiles[name] = true
	data, exists := d.compiler.files[name]
	switch {
	case exists && data != nil:
		return name, ""
	case exists:
		return "", fmt.Sprintf("The file %s is not read: it is larger than %s, or all JSON and YAML files of the project "+
			"are larger than %s together. Make it smaller, or leave files out that no reference leads to.", quote(name),
			budgetOf("file").LimitText(), budgetOf("configuration").LimitText())
	case !IsReferable(name):
		return "", fmt.Sprintf("A build reads the files .json, .yaml and .yml, and not %s. Rename the file, or correct the "+
			"reference.", quote(name))
	}
	return "", fmt.Sprintf("The project has no file %s. Correct the reference, or add the file. A file that an ignore "+
		"file leaves out is not uploaded.", quote(name))
}

// load reads a file of the project, once. It returns nil if the file has mistakes that parse has reported.
func (c *compiler) load(name string) *document {
	doc, known := c.loaded[name]
	if !known {
		doc = c.parse(name, c.files[name])
		c.loaded[name] = doc
	}
	return doc
}

// loadedDocuments returns the documents that were read, in the order of their names.
func (c *compiler) loadedDocuments() []*document {
	var out []*document
	for _, doc := range c.loaded {
		if doc != nil {
			out = append(out, doc)
		}
	}
	slices.SortFunc(out, func(a, b *document) int { return cmp.Compare(a.file, b.file) })
	return out
}
