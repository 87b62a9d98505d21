package project

import (
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/base/spelling"
)

// This file declares the types for the effects of OpenAPI's keywords. keywordtables.go has the tables, which are also in
// docs/descriptions.md. Tests compare the tables with the schemas of OpenAPI, and with the results of builds and of the
// gateway.

// KeywordEffect is an effect of a keyword.
type KeywordEffect string

// The effects of keywords.
const (
	EffectRoutes    KeywordEffect = "routes"
	EffectSecurity  KeywordEffect = "security"
	EffectRequests  KeywordEffect = "requests"
	EffectResponses KeywordEffect = "responses"
	EffectTools     KeywordEffect = "tools"
	EffectPassedOn  KeywordEffect = "passed on"
	EffectStructure KeywordEffect = "structure"
	EffectInit      KeywordEffect = "init"
	EffectReaders   KeywordEffect = "readers"
	EffectWarned    KeywordEffect = "warning"
)

// KeywordEffects returns all effects, each with its meaning, in the order of the documentation.
func KeywordEffects() [][2]string {
	return [][2]string{
		{string(EffectRoutes), "Enforced by the gateway: it decides which requests are served."},
		{string(EffectSecurity), "Enforced by the policies that implement the security schemes."},
		{string(EffectRequests), "Enforced by `request-validation-inbound`."},
		{string(EffectResponses), "Compared by `response-validation-outbound`."},
		{string(EffectTools), "Used for MCP tools: for their names, their calls and the schemas of their arguments and " +
			"results."},
		{string(EffectPassedOn), "Passed on to MCP clients in the descriptions and schemas of tools. The gateway does " +
			"not enforce it."},
		{string(EffectStructure), "Says where other keywords are, or how they are read."},
		{string(EffectInit), "Read by `gatewright init`, and not by the build."},
		{string(EffectReaders), "For the readers of the description. The gateway does nothing with it."},
		{string(EffectWarned), "No effect, or not everywhere: the build warns at its line. The note says when."},
	}
}

// Versions are versions of OpenAPI.
type Versions uint8

// The versions of OpenAPI.
const (
	Version30 Versions = 1 << iota
	Version31
	Version32
)

// Sets of versions.
const (
	allVersions = Version30 | Version31 | Version32
	since31     = Version31 | Version32
)

// Includes reports whether v has at least one of the versions.
func (v Versions) Includes(versions Versions) bool { return v&versions != 0 }

// String returns the versions, separated by commas: "3.1, 3.2". It returns "" for all versions.
func (v Versions) String() string {
	if v == allVersions {
		return ""
	}
	var names []string
	for i, name := range []string{"3.0", "3.1", "3.2"} {
		if v.Includes(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// KeywordGroup has the keywords of an object of OpenAPI that have the same effects.
type KeywordGroup struct {
	// Object is the name of the object in the specification, such as "Media Type".
	Object string
	// Names are the keywords. A keyword in braces, such as {path}, stands for all names of its kind.
	Names    []string
	Versions Versions
	Effects  []KeywordEffect
	// Note says more about the effects, or is "". It begins with a small letter, and has no final period.
	Note string
}

// Has reports whether the keywords have an effect.
func (g *KeywordGroup) Has(effect KeywordEffect) bool { return slices.Contains(g.Effects, effect) }

// group returns a group. names are separated by spaces, and effects by commas.
func group(object string, versions Versions, names, effects, note string) KeywordGroup {
	g := KeywordGroup{Object: object, Names: strings.Fields(names), Versions: versions, Note: note}
	for effect := range strings.SplitSeq(effects, ",") {
		g.Effects = append(g.Effects, KeywordEffect(effect))
	}
	return g
}

// knownKeywords are the keywords of schemas in OpenAPI 3.1 and 3.2.
type knownKeywords struct {
	names []string
	known map[string]bool
}

func newKnownKeywords() knownKeywords {
	k := knownKeywords{known: map[string]bool{}}
	for _, g := range Keywords() {
		if g.Object != SchemaKeywords || !g.Versions.Includes(since31) {
			continue
		}
		for _, name := range g.Names {
			k.names, k.known[name] = append(k.names, name), true
		}
	}
	return k
}

// near returns the keyword that the author of a misspelled name probably meant, or "".
func (k knownKeywords) near(name string) string { return nearestName(name, k.names) }

// maxNearLength is the maximum length of a name for which nearestName looks, in bytes.
const maxNearLength = 64

// nearestName returns the one of names that the author of a misspelled name probably meant, or "".
func nearestName(name string, names []string) string {
	const lettersPerTypo = 3
	if len(name) > maxNearLength || len(names) == 0 {
		return ""
	}
	nearest, ok := spelling.Nearest(name, names, len(name)/lettersPerTypo)
	if !ok || nearest == name {
		return ""
	}
	return nearest
}
