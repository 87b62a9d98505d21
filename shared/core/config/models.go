package config

import (
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// DefaultDocsAnswersADay is the default maximum number of questions per day that a process sends to a
// Bedrock model. There is a maximum because the search is public, and the operator pays for the model.
const (
	DefaultDocsAnswersADay = 200
	maxDocsAnswersADay     = 100_000
)

// IsDocsAnswersADay reports whether n is a valid maximum number of questions.
func IsDocsAnswersADay(n int) bool { return n >= 1 && n <= maxDocsAnswersADay }

// EmbeddingModels returns the Bedrock models whose vectors the search in the documentation can
// use. Their requests and responses differ, so package bedrock supports each model by its name.
func EmbeddingModels() []string {
	return []string{"amazon.titan-embed-text-v2:0", "cohere.embed-english-v3", "cohere.embed-multilingual-v3"}
}

// IsEmbeddingModel reports whether id is one of EmbeddingModels.
func IsEmbeddingModel(id string) bool { return slices.Contains(EmbeddingModels(), id) }

var (
	// modelID matches the id of a foundation model or of a system-defined inference profile. It
	// does not match ARNs of provisioned models and of an account's own profiles: such an ARN does
	// not contain the name of the model behind it, so a role could not grant access to the model.
	modelID = lazy.Regexp(`^[a-z][a-z0-9-]{0,30}(\.[a-z0-9][a-z0-9-]*){1,6}(:[0-9]{1,4})?$`)
	// geographies are the prefixes of the ids of inference profiles, which use a model in several regions.
	geographies = []string{"us", "us-gov", "eu", "apac", "jp", "au", "ca", "global"}
)

// IsModel reports whether text has the form of a model's id, such as
// amazon.nova-lite-v1:0, or of an inference profile's, such as eu.amazon.nova-lite-v1:0.
func IsModel(text string) bool {
	model, _ := ProfileOf(text)
	return len(text) <= 128 && modelID().MatchString(text) && strings.Contains(model, ".")
}

// ProfileOf returns the foundation model of an id, and reports whether the id is of an inference profile.
func ProfileOf(id string) (model string, profile bool) {
	if geography, model, cut := strings.Cut(id, "."); cut && slices.Contains(geographies, geography) {
		return model, true
	}
	return id, false
}
