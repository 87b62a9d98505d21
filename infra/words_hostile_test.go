package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checked runs check as make does, with a stage dev that is good.
func checked(t *testing.T, args ...string) error {
	t.Helper()
	dir := t.TempDir()
	const good = `{"protected": false, "gatewayDomain": "apis.example.com", "certificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c"}`
	if err := os.WriteFile(filepath.Join(dir, "dev.json"), []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	return check(slices.Concat([]string{"-c", "stages=" + dir}, args))
}

// TestEmptyStageIsRefused: make destroy STAGE=$PREVIEW YES=1 of a pipeline whose variable is empty would destroy the stage dev.
func TestEmptyStageIsRefused(t *testing.T) {
	for _, args := range [][]string{{"-c", "stage="}, {"-c", "stage=dev", "-c", "stage="}, {"--context", "stage="}} {
		if err := checked(t, args...); err == nil || !strings.Contains(err.Error(), "-c stage is empty") {
			t.Errorf("check(%q) = %v, want a refusal of the empty stage", args, err)
		}
	}
	context := func(name string) any { return map[string]any{"stage": ""}[name] }
	if _, err := settingsOfStage(os.DirFS, context); err == nil || !strings.Contains(err.Error(), "-c stage is empty") {
		t.Errorf("settingsOfStage() = %v, want a refusal of the empty stage", err)
	}
}

// TestAddressOfAPersonIsInNoArgument: what CONTEXT= has is in the arguments of sh, of the deployment and of the CDK, and make diff prints it.
func TestAddressOfAPersonIsInNoArgument(t *testing.T) {
	for _, args := range [][]string{{"-c", "alarmEmail=" + email}, {"-c", "alarmEmail=" + email, "-c", "waf"}} {
		if err := checked(t, args...); err == nil || strings.Contains(err.Error(), email) {
			t.Errorf("check(%q) = %v, want a refusal that does not contain the address", args, err)
		}
	}
}

// TestVariablesOfFunctionsFit: Lambda takes 4 KB of variables of a function: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html.
func TestVariablesOfFunctionsFit(t *testing.T) {
	origins := strings.TrimSpace(strings.Repeat("https://"+strings.Repeat("a", 60)+".internal.example.com ", 50))
	if err := checked(t, "-c", "stage=dev", "-c", "origins="+origins); err == nil {
		t.Errorf("check -c origins=… of %d bytes = nil, and AWS refuses the functions: want a refusal", len(origins))
	}
}

// TestArgumentsThatTheCDKReadsDifferentlyAreRefused: flags of Go may begin with one hyphen or two. The CDK reads -context as -c -o -n -t -e -x -t.
func TestArgumentsThatTheCDKReadsDifferentlyAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-context", "canary=false"}, {"-context=canary=false"}, {"--c", "canary=false"}, {"--c=canary=false"}} {
		if err := checked(t, args...); err == nil || !strings.Contains(err.Error(), "the CDK reads") {
			t.Errorf("check(%q) = %v, want a refusal", args, err)
		}
	}
	for _, args := range [][]string{{"-c", "canary=false"}, {"-c=canary=false"}, {"--context", "canary=false"}, {"--context=canary=false"}} {
		if err := checked(t, args...); err != nil {
			t.Errorf("check(%q) = %v, want no error", args, err)
		}
	}
}

// TestAddressIsInLowerCase: with the same letters in another case it would be the same resource, and the difference that a deployment shows would
// contain both addresses.
func TestAddressIsInLowerCase(t *testing.T) {
	context := func(name string) any {
		return map[string]any{"gatewayDomain": "apis.example.com", "certificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c", "alarmEmail": "Operations@example.com"}[name]
	}
	if _, err := settingsOf(context); err == nil || !strings.Contains(err.Error(), "lower case") {
		t.Errorf("settingsOf() = %v, want a refusal of capitals in alarmEmail", err)
	}
}
