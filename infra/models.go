package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/docsearch"
)

// modelVariables tell a function the models of Bedrock that it may ask.
func (s Settings) modelVariables() map[string]*string {
	variables := map[string]*string{}
	if s.DocsEmbeddings != "" {
		variables[config.VarDocsEmbeddings] = &s.DocsEmbeddings
	}
	if s.DocsAnswers != "" {
		variables[config.VarDocsAnswers] = &s.DocsAnswers
		variables[config.VarDocsAnswersADay] = jsii.String(strconv.Itoa(s.DocsAnswersADay))
	}
	return variables
}

// modelStatements allow these models and no others. Converse needs the action of InvokeModel.
func (s Settings) modelStatements() (out []any) {
	for _, id := range []string{s.DocsEmbeddings, s.DocsAnswers} {
		if id != "" {
			out = append(out, invoke(id)...)
		}
	}
	return out
}

// invoke allows a model, or an inference profile with the model behind it: in whatever region the profile asks it, which its name does
// not tell, but through this profile alone ("Prerequisites for inference profiles" in the user guide of Bedrock). A global
// profile's model has no region in its ARN, which the pattern takes as well.
func invoke(id string) []any {
	arn := func(format string, args ...any) any {
		return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:bedrock:"+fmt.Sprintf(format, args...)), nil)
	}
	actions := []any{"bedrock:InvokeModel"}
	model, profile := config.ProfileOf(id)
	if !profile {
		return []any{allow(actions, arn("${AWS::Region}::foundation-model/%s", id))}
	}
	through := arn("${AWS::Region}:${AWS::AccountId}:inference-profile/%s", id)
	behind := allow(actions, arn("*::foundation-model/%s", model))
	behind["Condition"] = map[string]any{"StringEquals": map[string]any{"bedrock:InferenceProfileArn": through}}
	return []any{allow(actions, through), behind}
}

// checkVectors says why the search could not use the model of the context: its vectors of the documentation are made before a
// deployment, and are in the function's asset (docs/decisions/0050-vectors-of-bedrock-are-made-before-a-deployment.md).
func (s Settings) checkVectors() error {
	if s.DocsEmbeddings == "" {
		return nil
	}
	path := filepath.Join(s.asset(mcpdocs.Group.Name), mcpdocs.VectorsFile)
	file, err := os.ReadFile(path) //nolint:gosec // part of the function's asset
	if err != nil {
		return fmt.Errorf("-c docsEmbeddings needs vectors of the documentation by this model: make them with make docs-vectors MODEL=%s, and then make build: %w", s.DocsEmbeddings, err)
	}
	vectors, err := docsearch.ReadVectors(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	index, err := docsearch.Documentation()
	if err != nil {
		return fmt.Errorf("read the index of the documentation: %w", err)
	}
	return vectors.Fits(s.DocsEmbeddings, index.Content)
}
