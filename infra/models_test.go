package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/shared/management/docsearch"
)

// TestOnlyConfiguredModelsAreAllowed checks that only the function that needs models is allowed to call them, and only
// the configured models. Without the settings, no function is allowed to call a model.
func TestOnlyConfiguredModelsAreAllowed(t *testing.T) {
	const titan = "${AWS::Region}::foundation-model/amazon.titan-embed-text-v2:0"
	for name, tc := range map[string]struct {
		context map[string]string
		env     map[string]any
		// models are the models that the function can call. If a text begins with a profile, the model is allowed only
		// through that profile.
		models []string
	}{
		"no models": {nil, map[string]any{}, nil},
		"two models": {
			functionContext,
			map[string]any{
				"GATEWRIGHT_DOCS_EMBEDDINGS": "amazon.titan-embed-text-v2:0", "GATEWRIGHT_DOCS_ANSWERS": "amazon.nova-lite-v1:0",
				"GATEWRIGHT_DOCS_ANSWERS_A_DAY": "50",
			},
			[]string{" " + titan, " ${AWS::Region}::foundation-model/amazon.nova-lite-v1:0"},
		},
		"an inference profile": {
			streamingContext,
			map[string]any{"GATEWRIGHT_DOCS_ANSWERS": "eu." + haikuModel, "GATEWRIGHT_DOCS_ANSWERS_A_DAY": "200"},
			[]string{
				" ${AWS::Region}:${AWS::AccountId}:inference-profile/eu." + haikuModel,
				"${AWS::Region}:${AWS::AccountId}:inference-profile/eu." + haikuModel + " *::foundation-model/" + haikuModel,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := synthesize(t, minimalContext(tc.context))
			for id, f := range a.all("AWS::Lambda::Function") {
				variables, _ := get(f.Properties, "Environment", "Variables").(map[string]any)
				for _, v := range []string{
					"GATEWRIGHT_DOCS_EMBEDDINGS", "GATEWRIGHT_DOCS_ANSWERS",
					"GATEWRIGHT_DOCS_ANSWERS_A_DAY",
				} {
					want := tc.env[v]
					if id != "McpdocsFunction" {
						want = nil
					}
					if got := variables[v]; got != want {
						t.Errorf("environment of %s has %s = %v, want %v", id, v, got, want)
					}
				}
			}
			if tc.models != nil && a.find("McpdocsPolicy").Type == "" {
				t.Error("the role of mcpdocs has no policy McpdocsPolicy, want one")
			}
			for id, p := range a.all("AWS::IAM::Policy") {
				var models []string
				statements, _ := get(p.Properties, "PolicyDocument", "Statement").([]any)
				for _, s := range statements {
					if !strings.Contains(fmt.Sprint(get(s, "Action")), "bedrock") {
						continue
					}
					if actions := texts(get(s, "Action")); !slices.Equal(actions, []string{"bedrock:InvokeModel"}) {
						t.Errorf("%s allows %v, want bedrock:InvokeModel alone", id, actions)
					}
					profile := ""
					if c := get(s, "Condition", "StringEquals", "bedrock:InferenceProfileArn"); c != nil {
						profile = render(c)
					}
					for _, r := range texts(get(s, "Resource")) {
						models = append(models, strings.ReplaceAll(profile+" "+r, "arn:${AWS::Partition}:bedrock:", ""))
					}
				}
				want := tc.models
				if id != "McpdocsPolicy" {
					want = nil
				}
				if !slices.Equal(models, want) {
					t.Errorf("models that %s allows =\n%s\nwant\n%s", id, strings.Join(models, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

// TestVectorsMatchTheModelAndDocumentation checks that checkVectors accepts only vectors of the configured model and of
// this documentation.
func TestVectorsMatchTheModelAndDocumentation(t *testing.T) {
	const model = "amazon.titan-embed-text-v2:0"
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		t.Fatal(err)
	}
	vectorsOf := func(model string, content docsearch.Content) []byte {
		vectors := slices.Repeat([][]float32{{1}}, len(content.Texts()))
		v, err := docsearch.NewVectors(model, content, 0.5, vectors)
		if err != nil {
			t.Fatal(err)
		}
		file, err := v.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"no vectors":   {nil, "make docs-vectors MODEL=" + model},
		"invalid file": {[]byte("x"), "no file of vectors"},
		"vectors of another model": {
			vectorsOf("cohere.embed-english-v3", index.Content),
			"cohere.embed-english-v3",
		},
		"vectors of another documentation": {vectorsOf(model, docsearch.Content{
			Passages:  index.Passages[1:],
			Questions: index.Questions,
		}), "another version"},
		"current vectors": {vectorsOf(model, index.Content), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := settingsWithOwnAssets(t, minimalContext(map[string]string{"docsEmbeddings": model}))
			if tc.file != nil {
				if err := os.WriteFile(filepath.Join(s.assetFolder(mcpdocs.Group.Name), mcpdocs.VectorsFile), tc.file,
					0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := s.checkVectors()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("checkVectors() = %v, want an error with %q, or none if it is empty", err, tc.want)
			}
		})
	}
	if err := settingsFor(t, minimalContext(nil)).checkVectors(); err != nil {
		t.Errorf("checkVectors(no model) = %v, want no error", err)
	}
}
