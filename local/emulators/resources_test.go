package main

import (
	"maps"
	"strings"
	"testing"
)

// TestUpdateThatLosesSomethingIsTold, and no other.
func TestUpdateThatLosesSomethingIsTold(t *testing.T) {
	before := map[string]resource{
		"s/Table":    {kind: "AWS::DynamoDB::Table", physical: "t"},
		"s/OneLive":  {kind: aliasKind, physical: "one:live", version: "1"},
		"s/Version1": {kind: "AWS::Lambda::Version", physical: "one:1"},
		"s/D1":       {kind: "AWS::ApiGateway::Deployment", physical: "d1"},
		"s/Method":   {kind: "AWS::ApiGateway::Method", physical: "m"},
		"s/Role":     {kind: "AWS::IAM::Role", physical: "r"},
	}
	good := map[string]resource{
		"s/Table":    before["s/Table"],
		"s/OneLive":  {kind: aliasKind, physical: "one:live", version: "2"},
		"s/Version2": {kind: "AWS::Lambda::Version", physical: "one:2"},
		"s/D2":       {kind: "AWS::ApiGateway::Deployment", physical: "d2"},
		"s/Method":   before["s/Method"],
		"s/Role":     before["s/Role"],
	}
	for name, tc := range map[string]struct {
		id   string
		is   resource // without a kind: it is gone
		want string   // "" for nothing
	}{
		"nothing":                                 {"s/Table", before["s/Table"], ""},
		"something is added":                      {"s/Alarm", resource{kind: "AWS::CloudWatch::Alarm", physical: "a"}, ""},
		"a method is removed":                     {"s/Method", resource{}, ""},
		"the table is another one":                {"s/Table", resource{kind: "AWS::DynamoDB::Table", physical: "t2"}, "s/Table, an AWS::DynamoDB::Table, is another one by the update: t2 in place of t"},
		"the table is gone":                       {"s/Table", resource{}, "s/Table, an AWS::DynamoDB::Table, is gone"},
		"a role is another one":                   {"s/Role", resource{kind: "AWS::IAM::Role", physical: "r2"}, "s/Role, an AWS::IAM::Role, is another one"},
		"an alias is gone":                        {"s/OneLive", resource{}, "s/OneLive, an AWS::Lambda::Alias, is gone"},
		"an alias leads where it led before":      {"s/OneLive", before["s/OneLive"], "s/OneLive leads to version 1, as before"},
		"a version stays though it is not called": {"s/Version1", before["s/Version1"], ""},
	} {
		t.Run(name, func(t *testing.T) {
			after := maps.Clone(good)
			after[tc.id] = tc.is
			if tc.is.kind == "" {
				delete(after, tc.id)
			}
			_, err := compare(before, after)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("it is told: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("it is told %v, want one line with %q", err, tc.want)
			}
		})
	}
}

// TestUpdateThatIsTakenBackLeavesNothing of itself.
func TestUpdateThatIsTakenBackLeavesNothing(t *testing.T) {
	before := map[string]resource{
		"s/Table":   {kind: "AWS::DynamoDB::Table", physical: "t"},
		"s/OneLive": {kind: aliasKind, physical: "one:live", version: "1"},
	}
	for name, tc := range map[string]struct {
		id   string
		is   resource // without a kind: it is gone
		want string   // "" for nothing
	}{
		"nothing":                        {"s/Table", before["s/Table"], ""},
		"a resource is left":             {"s/Alarm", resource{kind: "AWS::CloudWatch::Alarm", physical: "a"}, "s/Alarm, an AWS::CloudWatch::Alarm, is left"},
		"a resource is gone":             {"s/Table", resource{}, "s/Table, an AWS::DynamoDB::Table, is not what it was"},
		"an alias leads to the new code": {"s/OneLive", resource{kind: aliasKind, physical: "one:live", version: "2"}, "s/OneLive, an AWS::Lambda::Alias, is not what it was"},
	} {
		t.Run(name, func(t *testing.T) {
			after := maps.Clone(before)
			after[tc.id] = tc.is
			if tc.is.kind == "" {
				delete(after, tc.id)
			}
			_, err := unchanged(before, after)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it is told %v, want %q", err, tc.want)
			}
		})
	}
}

// TestWhatAVersionAloneHasGoesOnTheWayBack, and nothing else.
func TestWhatAVersionAloneHasGoesOnTheWayBack(t *testing.T) {
	s := &suite{dir: t.TempDir()}
	table := resource{kind: "AWS::DynamoDB::Table", physical: "t"}
	if err := s.remember(map[string]resource{"s/Table": table}); err != nil {
		t.Fatal(err)
	}
	got, err := s.remembered(map[string]resource{"s/Table": table, "n/Queue": {kind: "AWS::SQS::Queue", physical: "q"}})
	if err != nil || !maps.Equal(got, map[string]resource{"s/Table": table}) {
		t.Errorf("of the last release are %v, %v", got, err)
	}
	if got, err := s.remembered(map[string]resource{"n/Queue": {}}); err == nil {
		t.Errorf("where nothing of the last release is left, it is told %v", got)
	}
}
