package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// TestSecurityFindingsHaveReasons runs cdk-nag on the installation: testdata/nag.txt has a line for each accepted
// finding, with its reason. A finding without a line fails the test, and so does a line without a finding or a reason.
//
// A line has the rule, the resource (a * at its end matches several), and the reason.
func TestSecurityFindingsHaveReasons(t *testing.T) {
	s := settingsFor(t, servicesContext(map[string]string{"waf": "true", "alarmEmail": email, "checkRegion": checkRegion}))
	a := synthesizeWith(t, s, nil, func(app awscdk.App) { newCheck(app, s, nil) }, func(app awscdk.App) {
		awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{
			ReportFormats: &[]cdknag.NagReportFormat{cdknag.NagReportFormat_JSON},
		}), nil)
	})
	reports, err := filepath.Glob(filepath.Join(a.dir, "*-NagReport.json"))
	if err != nil || len(reports) == 0 {
		t.Fatalf("reports of cdk-nag = %v, %v, want some and no error", reports, err)
	}
	var findings []string
	checked := 0
	for _, file := range reports {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			Lines []struct{ RuleID, ResourceID, Compliance string }
		}
		if err := json.Unmarshal(raw, &report); err != nil {
			t.Fatal(err)
		}
		for _, line := range report.Lines {
			checked++
			if line.Compliance != "Compliant" && line.Compliance != "N/A" {
				findings = append(findings, line.RuleID+" "+strings.TrimPrefix(line.ResourceID, "gatewright-dev/"))
			}
		}
	}
	if checked < 50 {
		t.Errorf("the reports of cdk-nag have %d lines, want at least 50", checked)
	}
	raw, err := os.ReadFile("testdata/nag.txt")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(findings)
	findings = slices.Compact(findings)
	for text := range strings.Lines(string(raw)) {
		var rule, resourceID string
		if n, _ := fmt.Sscan(text, &rule, &resourceID); n == 0 || strings.HasPrefix(rule, "#") {
			continue
		}
		_, reason, _ := strings.Cut(text, resourceID)
		if strings.TrimSpace(reason) == "" {
			t.Errorf("%s %s in testdata/nag.txt has no reason, want one", rule, resourceID)
		}
		matched := false
		findings = slices.DeleteFunc(findings, func(f string) bool {
			match := f == rule+" "+resourceID
			if prefix, ok := strings.CutSuffix(resourceID, "*"); ok {
				match = strings.HasPrefix(f, rule+" "+prefix)
			}
			matched = matched || match
			return match
		})
		if !matched {
			t.Errorf("%s %s is no longer found, want its line removed", rule, resourceID)
		}
	}
	for _, f := range findings {
		t.Errorf("finding of cdk-nag: %s, want a fix, or a line with the reason in testdata/nag.txt", f)
	}
}
