package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/core/config"
)

func validEnvironment() map[string]string {
	return map[string]string{
		config.VarTable:         "gatewright",
		config.VarBucket:        "gatewright-blobs",
		config.VarKMSKey:        "alias/gatewright",
		config.VarDeploymentURL: "https://{deployment}.example.com",
	}
}

func TestFromEnvironment(t *testing.T) {
	env := validEnvironment()
	env[config.VarKMSKey], env[config.VarKeyFile] = "", "key"
	env[config.VarDynamoDBEndpoint] = "http://127.0.0.1:8000"
	env[config.VarS3Endpoint] = "http://127.0.0.1:8001/"
	env[config.VarS3PublicEndpoint] = "http://localhost:8001"
	env[config.VarPrivateUpstreams] = "true"
	env[config.VarDecodedPaths] = "true"
	env[config.VarStreaming] = "true"
	env[config.VarUnderscores] = "true"
	env[config.VarHeaderFields] = "300"
	env[config.VarAPIURL] = "https://api.example.com/stage/"
	env[config.VarOrigins] = "https://a.example.com  http://localhost:6274"
	env[config.VarRelay] = "https://relay.example.com"
	env[config.VarDocsEmbeddings] = "cohere.embed-english-v3"
	env[config.VarDocsAnswers] = "eu.amazon.nova-lite-v1:0"
	env[config.VarDocsAnswersADay] = "50"
	env[config.VarBedrockEndpoint] = "http://127.0.0.1:8002"
	got, err := config.FromEnvironment(func(name string) string { return env[name] })
	if err != nil {
		t.Fatalf("FromEnvironment() = %v, want success", err)
	}
	want := config.Config{
		Table: "gatewright", Bucket: "gatewright-blobs", KeyFile: "key",
		DeploymentURL:    "https://{deployment}.example.com",
		DynamoDBEndpoint: "http://127.0.0.1:8000",
		S3Endpoint:       "http://127.0.0.1:8001/",
		S3PublicEndpoint: "http://localhost:8001",
		PrivateUpstreams: true,
		DecodedPaths:     true,
		Streaming:        true,
		Relay:            "https://relay.example.com",
		APIURL:           "https://api.example.com/stage",
		Origins:          []string{"https://a.example.com", "http://localhost:6274"},

		HeaderUnderscores: true,
		HeaderBytes:       64 << 10, HeaderFields: 300,

		DocsEmbeddings: "cohere.embed-english-v3", DocsAnswers: "eu.amazon.nova-lite-v1:0", DocsAnswersADay: 50,
		BedrockEndpoint: "http://127.0.0.1:8002",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("FromEnvironment() (-want +got):\n%s", diff)
	}
}

func TestErrorNamesInvalidVariable(t *testing.T) {
	for name, tc := range map[string]struct{ variable, value string }{
		"no table":                  {config.VarTable, ""},
		"no bucket":                 {config.VarBucket, ""},
		"no key":                    {config.VarKMSKey, ""},
		"two keys":                  {config.VarKeyFile, "secret-value"},
		"no deployment url":         {config.VarDeploymentURL, ""},
		"relative url":              {config.VarDeploymentURL, "secret-value"},
		"two placeholders":          {config.VarDeploymentURL, "http://{deployment}.{deployment}.secret-value"},
		"deployment url with path":  {config.VarDeploymentURL, "http://{deployment}.example.com/secret-value"},
		"endpoint":                  {config.VarDynamoDBEndpoint, "secret-value:8000"},
		"endpoint with a path":      {config.VarS3Endpoint, "http://secret-value/x"},
		"public endpoint":           {config.VarS3PublicEndpoint, "ftp://secret-value"},
		"upstreams":                 {config.VarPrivateUpstreams, "secret-value"},
		"paths":                     {config.VarDecodedPaths, "secret-value"},
		"streaming":                 {config.VarStreaming, "secret-value"},
		"relay":                     {config.VarRelay, "wss://secret-value"},
		"relay with a path":         {config.VarRelay, "https://secret-value/x"},
		"api address":               {config.VarAPIURL, "secret-value"},
		"api address with query":    {config.VarAPIURL, "https://api.example.com/?secret-value"},
		"api address with fragment": {config.VarAPIURL, "https://api.example.com/#secret-value"},
		"api address with space":    {config.VarAPIURL, "https://api.example.com/a secret-value"},
		"api address with user":     {config.VarAPIURL, "https://secret-value@api.example.com"},
		"origins":                   {config.VarOrigins, "https://a.example.com https://secret-value/x"},
		"embeddings":                {config.VarDocsEmbeddings, "amazon.secret-value"},
		"answers":                   {config.VarDocsAnswers, "secret-value"},
		"answers a day":             {config.VarDocsAnswersADay, "secret-value"},
		"no answers a day":          {config.VarDocsAnswersADay, "0"},
		"bedrock endpoint":          {config.VarBedrockEndpoint, "http://secret-value/x"},
		"underscores":               {config.VarUnderscores, "secret-value"},
	} {
		t.Run(name, func(t *testing.T) {
			env := validEnvironment()
			env[tc.variable] = tc.value
			_, err := config.FromEnvironment(func(name string) string { return env[name] })
			if err == nil || !strings.Contains(err.Error(), tc.variable) {
				t.Errorf("FromEnvironment() = %v, want an error that names %s", err, tc.variable)
			}
			if err != nil && strings.Contains(err.Error(), "secret-value") {
				t.Errorf("FromEnvironment() = %v, want an error without the value", err)
			}
		})
	}
}

func TestErrorNamesAllInvalidVariables(t *testing.T) {
	_, err := config.FromEnvironment(func(string) string { return "" })
	for _, name := range []string{config.VarTable, config.VarBucket, config.VarKMSKey, config.VarDeploymentURL} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("FromEnvironment() without variables = %v, want an error that names %s", err, name)
		}
	}
}

func TestDeploymentOrigin(t *testing.T) {
	for pattern, want := range map[string]struct{ origin, domain string }{
		"http://{deployment}.localhost:9001":    {"http://shop-main-0a1b2c3.localhost:9001", "localhost"},
		"https://{deployment}.APIs.example.com": {"https://shop-main-0a1b2c3.APIs.example.com", "apis.example.com"},
	} {
		c := config.Config{DeploymentURL: pattern}
		if got := c.DeploymentOrigin("shop-main-0a1b2c3"); got != want.origin {
			t.Errorf("DeploymentOrigin() with %s = %s, want %s", pattern, got, want.origin)
		}
		if got := c.DeploymentDomain(); got != want.domain {
			t.Errorf("DeploymentDomain() with %s = %s, want %s", pattern, got, want.domain)
		}
	}
}
