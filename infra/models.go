package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/management/docsearch"
)

// modelVariables returns the environment variables with the models of Bedrock that a function can call.
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

// modelStatements returns statements that allow only the configured models. The API call Converse needs the action
// bedrock:InvokeModel.
func (s Settings) modelStatements() (out []any) {
	for _, id := range []string{s.DocsEmbeddings, s.DocsAnswers} {
		if id != "" {
			out = append(out, invokeModelStatements(id)...)
		}
	}
	return out
}

// invokeModelStatements returns statements that allow calls of a model, or of an inference profile and the model behind
// it. The profile can call the model in other regions, and its name does not list these regions. So the model is
// allowed in any region, but only through this profile ("Prerequisites for inference profiles" in the user guide of
// Bedrock). The ARN of a global profile's model has no region, which the pattern accepts too.
func invokeModelStatements(id string) []any {
	arn := func(format string, args ...any) any {
		return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:bedrock:"+fmt.Sprintf(format, args...)), nil)
	}
	actions := []any{"bedrock:InvokeModel"}
	model, isProfile := config.ProfileOf(id)
	if !isProfile {
		return []any{allow(actions, arn("${AWS::Region}::foundation-model/%s", id))}
	}
	profileARN := arn("${AWS::Region}:${AWS::AccountId}:inference-profile/%s", id)
	modelStatement := allow(actions, arn("*::foundation-model/%s", model))
	modelStatement["Condition"] = map[string]any{"StringEquals": map[string]any{"bedrock:InferenceProfileArn": profileARN}}
	return []any{allow(actions, profileARN), modelStatement}
}

// checkVectors returns an error if the function's asset has no vectors of this documentation that the model in the
// settings has computed. The vectors of the documentation are computed before a deployment
// (docs/decisions/0050-vectors-of-bedrock-are-made-before-a-deployment.md).
func (s Settings) checkVectors() error {
	if s.DocsEmbeddings == "" {
		return nil
	}
	path := filepath.Join(s.assetFolder(mcpdocs.Group.Name), mcpdocs.VectorsFile)
	file, err := os.ReadFile(path) //nolint:gosec // part of the function's asset
	if err != nil {
		return fmt.Errorf("-c docsEmbeddings needs vectors of the documentation by this model: make them with make "+
			"docs-vectors MODEL=%s, and then make build: %w", s.DocsEmbeddings, err)
	}
	vectors, err := docsearch.ReadVectors(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		return fmt.Errorf("read the index of the documentation: %w", err)
	}
	return vectors.CheckMatch(s.DocsEmbeddings, index.Content)
}
