package config

import (
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/lazy"
)

// DefaultDocsAnswersADay is how many questions of a day a process puts to a model of Bedrock where nothing is set: the search is
// public, and whoever runs it pays.
const (
	DefaultDocsAnswersADay = 200
	mostDocsAnswersADay    = 100_000
)

// IsDocsAnswersADay reports whether so many questions may be put to a model.
func IsDocsAnswersADay(n int) bool { return n >= 1 && n <= mostDocsAnswersADay }

// EmbeddingModels are those of Bedrock whose vectors the documentation is searched by. What they take and answer differs, so that each
// is known by name (package bedrock).
func EmbeddingModels() []string {
	return []string{"amazon.titan-embed-text-v2:0", "cohere.embed-english-v3", "cohere.embed-multilingual-v3"}
}

// IsEmbeddingModel reports whether id is one of them.
func IsEmbeddingModel(id string) bool { return slices.Contains(EmbeddingModels(), id) }

var (
	// modelID is a foundation model's or a system-defined inference profile's. ARNs, of provisioned models and profiles of an
	// account's own, are none: which models stand behind those cannot be seen, and so they could not be granted.
	modelID = lazy.Regexp(`^[a-z][a-z0-9-]{0,30}(\.[a-z0-9][a-z0-9-]*){1,6}(:[0-9]{1,4})?$`)
	// geographies begin the ids of inference profiles, which ask a model in several regions.
	geographies = []string{"us", "us-gov", "eu", "apac", "jp", "au", "ca", "global"}
)

// IsModel reports whether text looks like a model's id, such as amazon.nova-lite-v1:0, or an inference profile's, such as
// eu.amazon.nova-lite-v1:0.
func IsModel(text string) bool {
	model, _ := ProfileOf(text)
	return len(text) <= 128 && modelID().MatchString(text) && strings.Contains(model, ".")
}

// ProfileOf gives the foundation model behind an id, and whether the id is an inference profile's.
func ProfileOf(id string) (model string, profile bool) {
	if geography, model, cut := strings.Cut(id, "."); cut && slices.Contains(geographies, geography) {
		return model, true
	}
	return id, false
}
