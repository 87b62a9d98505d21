package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runCheck calls check with arguments as make does. The stage dev has a valid file.
func runCheck(t *testing.T, args ...string) error {
	t.Helper()
	dir := t.TempDir()
	const validStage = `{"protected": false, "gatewayDomain": "apis.example.com", ` +
		`"certificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c"}`
	if err := os.WriteFile(filepath.Join(dir, "dev.json"), []byte(validStage), 0o600); err != nil {
		t.Fatal(err)
	}
	return check(slices.Concat([]string{"-c", "stages=" + dir}, args))
}

// TestEmptyStageIsRefused checks an empty STAGE: make destroy STAGE=$PREVIEW YES=1 in a pipeline with an empty variable
// would otherwise destroy the stage dev.
func TestEmptyStageIsRefused(t *testing.T) {
	for _, args := range [][]string{{"-c", "stage="}, {"-c", "stage=dev", "-c", "stage="}, {"--context", "stage="}} {
		if err := runCheck(t, args...); err == nil || !strings.Contains(err.Error(), "-c stage is empty") {
			t.Errorf("check(%q) = %v, want a refusal of the empty stage", args, err)
		}
	}
	context := func(name string) any { return map[string]any{"stage": ""}[name] }
	if _, err := loadSettings(os.DirFS, context); err == nil || !strings.Contains(err.Error(), "-c stage is empty") {
		t.Errorf("loadSettings(empty stage) error = %v, want a refusal of the empty stage", err)
	}
}

// TestPersonalSettingIsRefusedAsArgument checks that CONTEXT= cannot have an email address. The address would be in the
// arguments of sh, of the deployment and of the CDK, and make diff prints these arguments.
func TestPersonalSettingIsRefusedAsArgument(t *testing.T) {
	for _, args := range [][]string{{"-c", "alarmEmail=" + email}, {"-c", "alarmEmail=" + email, "-c", "waf"}} {
		if err := runCheck(t, args...); err == nil || strings.Contains(err.Error(), email) {
			t.Errorf("check(%q) = %v, want a refusal that does not contain the address", args, err)
		}
	}
}

// TestEnvironmentVariablesFitLambda checks that origins that are too long are refused: Lambda accepts 4 KB of variables
// of a function (https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html).
func TestEnvironmentVariablesFitLambda(t *testing.T) {
	origins := strings.TrimSpace(strings.Repeat("https://"+strings.Repeat("a", 60)+".internal.example.com ", 50))
	if err := runCheck(t, "-c", "stage=dev", "-c", "origins="+origins); err == nil ||
		!strings.Contains(err.Error(), "4 KB") {
		t.Errorf("check(origins of %d bytes) error = %v, want one with \"4 KB\"", len(origins), err)
	}
}

// TestArgumentsThatTheCDKReadsDifferentlyAreRefused checks the number of hyphens. Go's flags can begin with one hyphen
// or two, but the CDK parses -context as -c -o -n -t -e -x -t.
func TestArgumentsThatTheCDKReadsDifferentlyAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-context", "canary=false"},
		{"-context=canary=false"},
		{"--c", "canary=false"},
		{"--c=canary=false"},
	} {
		if err := runCheck(t, args...); err == nil || !strings.Contains(err.Error(), "the CDK reads") {
			t.Errorf("check(%q) error = %v, want one with \"the CDK reads\"", args, err)
		}
	}
	for _, args := range [][]string{
		{"-c", "canary=false"},
		{"-c=canary=false"},
		{"--context", "canary=false"},
		{"--context=canary=false"},
	} {
		if err := runCheck(t, args...); err != nil {
			t.Errorf("check(%q) = %v, want no error", args, err)
		}
	}
}

// TestAddressIsInLowerCase checks that an email address must be in lower case. If only the case of the address changed,
// the subscription would keep its logical id, and the diff of a deployment would contain both addresses.
func TestAddressIsInLowerCase(t *testing.T) {
	context := func(name string) any {
		return map[string]any{
			"gatewayDomain":  "apis.example.com",
			"certificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c", "alarmEmail": "Operations@example.com",
		}[name]
	}
	if _, err := settingsFromContext(context); err == nil || !strings.Contains(err.Error(), "lower case") {
		t.Errorf("settingsFromContext(alarmEmail with a capital) error = %v, want one with \"lower case\"", err)
	}
}
