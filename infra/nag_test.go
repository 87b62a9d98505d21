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

// TestSecurityFindingsAreReasoned has cdk-nag look at the installation:
// testdata/nag.txt has a line for each finding that stays, with its reason. A
// finding without a line fails, and so does a line without a finding.
//
// A line is: rule, resource (a * at its end stands for several), reason.
func TestSecurityFindingsAreReasoned(t *testing.T) {
	s := settingsFor(t, serving(map[string]string{"waf": "true", "alarmEmail": email, "checkRegion": checkRegion}))
	a := synthesiseOf(t, s, nil, func(app awscdk.App) { newCheck(app, s, nil) }, func(app awscdk.App) {
		awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{
			ReportFormats: &[]cdknag.NagReportFormat{cdknag.NagReportFormat_JSON},
		}), nil)
	})
	reports, err := filepath.Glob(filepath.Join(a.dir, "*-NagReport.json"))
	if err != nil || len(reports) == 0 {
		t.Fatalf("reports %v, error %v", reports, err)
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
		t.Errorf("only %d things were checked", checked)
	}
	raw, err := os.ReadFile("testdata/nag.txt")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(findings)
	findings = slices.Compact(findings)
	for text := range strings.Lines(string(raw)) {
		var rule, on string
		if n, _ := fmt.Sscan(text, &rule, &on); n == 0 || strings.HasPrefix(rule, "#") {
			continue
		}
		_, reason, _ := strings.Cut(text, on)
		if strings.TrimSpace(reason) == "" {
			t.Errorf("%s %s stays without a reason", rule, on)
		}
		matched := false
		findings = slices.DeleteFunc(findings, func(f string) bool {
			is := f == rule+" "+on
			if prefix, many := strings.CutSuffix(on, "*"); many {
				is = strings.HasPrefix(f, rule+" "+prefix)
			}
			matched = matched || is
			return is
		})
		if !matched {
			t.Errorf("%s %s is found no more: remove its line", rule, on)
		}
	}
	for _, f := range findings {
		t.Errorf("%s: mend it, or write a line with the reason into testdata/nag.txt", f)
	}
}
