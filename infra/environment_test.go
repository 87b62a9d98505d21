package main

import (
	"strings"
	"testing"
)

// TestFunctionEnvironmentNamesTheInstallation checks that functions have the variables that shared/runtime/cloud
// requires.
func TestFunctionEnvironmentNamesTheInstallation(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	for id, f := range a.all("AWS::Lambda::Function") {
		env, _ := get(f.Properties, "Environment", "Variables").(map[string]any)
		for _, name := range []string{
			"GATEWRIGHT_TABLE", "GATEWRIGHT_BUCKET", "GATEWRIGHT_KMS_KEY",
			"GATEWRIGHT_DEPLOYMENT_URL",
		} {
			if env[name] == nil || env[name] == "" {
				t.Errorf("environment of %s has %s = %v, want a value", id, name, env[name])
			}
		}
	}
}

// TestFunctionEnvironmentHasThePublicAddress checks the address of the management API in the environment of each
// function. It is the address in the setting apiUrl, otherwise the API's domain, otherwise the address of API Gateway.
// In an emulator without the setting, functions have no address.
func TestFunctionEnvironmentHasThePublicAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		context map[string]string
		want    string
	}{
		"address of API Gateway":   {nil, "https://${Api}.execute-api.${AWS::Region}.${AWS::URLSuffix}/dev"},
		"API domain":               {apiDomainContext, "https://api.example.com"},
		"address of a proxy":       {functionContext, "https://edge.example.com/api"},
		"emulator without a proxy": {map[string]string{"emulator": miniStack}, ""},
		"emulator with a proxy":    {emulatorContext, "http://api.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			a := synthesize(t, minimalContext(tc.context))
			want := tc.want
			for id, api := range a.all("AWS::ApiGateway::RestApi") {
				if api.Properties["Name"] == "gatewright-dev-api" {
					want = strings.ReplaceAll(want, "${Api}", "${"+id+"}")
				}
			}
			for id, f := range a.all("AWS::Lambda::Function") {
				got := ""
				if v := get(f.Properties, "Environment", "Variables", "GATEWRIGHT_API_URL"); v != nil {
					got = render(v)
				}
				if got != want {
					t.Errorf("GATEWRIGHT_API_URL of %s = %q, want %q", id, got, want)
				}
			}
		})
	}
}

// TestFunctionEnvironmentHasAllowedOrigins checks that functions allow exactly the origins that the context names.
func TestFunctionEnvironmentHasAllowedOrigins(t *testing.T) {
	for want, context := range map[string]map[string]string{"": nil, allowedOrigins: functionContext} {
		a := synthesize(t, minimalContext(context))
		for id, f := range a.all("AWS::Lambda::Function") {
			if got, _ := get(f.Properties, "Environment", "Variables", "GATEWRIGHT_ORIGINS").(string); got != want {
				t.Errorf("GATEWRIGHT_ORIGINS of %s = %q, want %q", id, got, want)
			}
		}
	}
}

// TestFunctionsTraceToTheConfiguredCollector checks that functions send spans to the configured collector, and none
// without the setting.
func TestFunctionsTraceToTheConfiguredCollector(t *testing.T) {
	for want, context := range map[any]map[string]string{collectorURL: functionContext, nil: nil} {
		a := synthesize(t, minimalContext(context))
		for id, f := range a.all("AWS::Lambda::Function") {
			if got := get(f.Properties, "Environment", "Variables", "OTEL_EXPORTER_OTLP_ENDPOINT"); got != want {
				t.Errorf("%s sends spans to %v, want %v", id, got, want)
			}
		}
	}
}
