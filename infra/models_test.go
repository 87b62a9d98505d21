package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/shared/docsearch"
)

// TestModelsAreAskedWhereTheContextNamesThem: by the one function that has a use for them, which is granted these models alone; and without
// the context nobody knows of any.
func TestModelsAreAskedWhereTheContextNamesThem(t *testing.T) {
	const titan = "${AWS::Region}::foundation-model/amazon.titan-embed-text-v2:0"
	for name, tc := range map[string]struct {
		context map[string]string
		env     map[string]any
		// may are the models that it may ask, each behind the profile that it has to ask it through.
		may []string
	}{
		"none": {nil, map[string]any{}, nil},
		"both": {
			told,
			map[string]any{
				"GATEWRIGHT_DOCS_EMBEDDINGS": "amazon.titan-embed-text-v2:0", "GATEWRIGHT_DOCS_ANSWERS": "amazon.nova-lite-v1:0", "GATEWRIGHT_DOCS_ANSWERS_A_DAY": "50",
			},
			[]string{" " + titan, " ${AWS::Region}::foundation-model/amazon.nova-lite-v1:0"},
		},
		"an inference profile": {
			streams,
			map[string]any{"GATEWRIGHT_DOCS_ANSWERS": "eu." + haiku, "GATEWRIGHT_DOCS_ANSWERS_A_DAY": "200"},
			[]string{
				" ${AWS::Region}:${AWS::AccountId}:inference-profile/eu." + haiku,
				"${AWS::Region}:${AWS::AccountId}:inference-profile/eu." + haiku + " *::foundation-model/" + haiku,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := synthesise(t, needed(tc.context))
			for id, f := range a.all("AWS::Lambda::Function") {
				variables, _ := get(f.Properties, "Environment", "Variables").(map[string]any)
				for _, v := range []string{"GATEWRIGHT_DOCS_EMBEDDINGS", "GATEWRIGHT_DOCS_ANSWERS", "GATEWRIGHT_DOCS_ANSWERS_A_DAY"} {
					want := tc.env[v]
					if id != "McpdocsFunction" {
						want = nil
					}
					if got := variables[v]; got != want {
						t.Errorf("%s is told %s=%v, want %v", id, v, got, want)
					}
				}
			}
			for id, p := range a.all("AWS::IAM::Policy") {
				var may []string
				statements, _ := get(p.Properties, "PolicyDocument", "Statement").([]any)
				for _, s := range statements {
					if !strings.Contains(fmt.Sprint(get(s, "Action")), "bedrock") {
						continue
					}
					if actions := texts(get(s, "Action")); !slices.Equal(actions, []string{"bedrock:InvokeModel"}) {
						t.Errorf("%s allows %v", id, actions)
					}
					through := ""
					if c := get(s, "Condition", "StringEquals", "bedrock:InferenceProfileArn"); c != nil {
						through = render(c)
					}
					for _, r := range texts(get(s, "Resource")) {
						may = append(may, strings.ReplaceAll(through+" "+r, "arn:${AWS::Partition}:bedrock:", ""))
					}
				}
				want := tc.may
				if id != "McpdocsPolicy" {
					want = nil
				}
				if !slices.Equal(may, want) {
					t.Errorf("%s allows the models\n%s\nwant\n%s", id, strings.Join(may, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

// TestVectorsAreThereBeforeADeployment, by the model of the context and of this documentation.
func TestVectorsAreThereBeforeADeployment(t *testing.T) {
	const model = "amazon.titan-embed-text-v2:0"
	index, err := docsearch.Documentation()
	if err != nil {
		t.Fatal(err)
	}
	vectorsOf := func(model string, content docsearch.Content) []byte {
		vectors := slices.Repeat([][]float32{{1}}, len(content.Texts()))
		v, err := docsearch.NewVectors(model, content, 0.5, vectors)
		if err != nil {
			t.Fatal(err)
		}
		file, err := v.Write()
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"none":                                {nil, "make docs-vectors MODEL=" + model},
		"something else":                      {[]byte("x"), "no file of vectors"},
		"by another model":                    {vectorsOf("cohere.embed-english-v3", index.Content), "cohere.embed-english-v3"},
		"of another version of the documents": {vectorsOf(model, docsearch.Content{Passages: index.Passages[1:], Questions: index.Questions}), "another version"},
		"by this model of these documents":    {vectorsOf(model, index.Content), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := settingsFor(t, needed(map[string]string{"docsEmbeddings": model}))
			if tc.file != nil {
				if err := os.WriteFile(filepath.Join(s.asset(mcpdocs.Group.Name), mcpdocs.VectorsFile), tc.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := s.checkVectors()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it says %v, want %q", err, tc.want)
			}
		})
	}
	if err := settingsFor(t, needed(nil)).checkVectors(); err != nil {
		t.Errorf("without a model it says %v", err)
	}
}
