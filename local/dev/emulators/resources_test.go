package main

import (
	"maps"
	"strings"
	"testing"
)

// TestCompareReportsLostResources checks that compare returns an error for a deleted resource with data, for a replaced
// resource, and for an alias that still has its previous version. Other changes must not be errors.
func TestCompareReportsLostResources(t *testing.T) {
	before := map[string]resource{
		"s/Table":    {resourceType: "AWS::DynamoDB::Table", physicalID: "t"},
		"s/OneLive":  {resourceType: aliasType, physicalID: "one:live", version: "1"},
		"s/Version1": {resourceType: "AWS::Lambda::Version", physicalID: "one:1"},
		"s/D1":       {resourceType: "AWS::ApiGateway::Deployment", physicalID: "d1"},
		"s/Method":   {resourceType: "AWS::ApiGateway::Method", physicalID: "m"},
		"s/Role":     {resourceType: "AWS::IAM::Role", physicalID: "r"},
	}
	afterUpdate := map[string]resource{
		"s/Table":    before["s/Table"],
		"s/OneLive":  {resourceType: aliasType, physicalID: "one:live", version: "2"},
		"s/Version2": {resourceType: "AWS::Lambda::Version", physicalID: "one:2"},
		"s/D2":       {resourceType: "AWS::ApiGateway::Deployment", physicalID: "d2"},
		"s/Method":   before["s/Method"],
		"s/Role":     before["s/Role"],
	}
	for name, tc := range map[string]struct {
		id      string
		current resource // the zero value if it was deleted
		want    string   // "" for no error
	}{
		"no change":         {"s/Table", before["s/Table"], ""},
		"an added resource": {"s/Alarm", resource{resourceType: "AWS::CloudWatch::Alarm", physicalID: "a"}, ""},
		"a removed method":  {"s/Method", resource{}, ""},
		"a replaced table": {
			"s/Table",
			resource{resourceType: "AWS::DynamoDB::Table", physicalID: "t2"},
			"s/Table, an AWS::DynamoDB::Table, is another one by the update: t2 in place of t",
		},
		"a deleted table": {"s/Table", resource{}, "s/Table, an AWS::DynamoDB::Table, is gone"},
		"a replaced role": {
			"s/Role",
			resource{resourceType: "AWS::IAM::Role", physicalID: "r2"},
			"s/Role, an AWS::IAM::Role, is another one",
		},
		"a deleted alias": {"s/OneLive", resource{}, "s/OneLive, an AWS::Lambda::Alias, is gone"},
		"an alias with its previous version": {
			"s/OneLive", before["s/OneLive"],
			"s/OneLive leads to version 1, as before",
		},
		"a retained version": {"s/Version1", before["s/Version1"], ""},
	} {
		t.Run(name, func(t *testing.T) {
			after := maps.Clone(afterUpdate)
			after[tc.id] = tc.current
			if tc.current.resourceType == "" {
				delete(after, tc.id)
			}
			_, err := compare(before, after)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("compare() = %v, want no error", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("compare() = %v, want one line with %q", err, tc.want)
			}
		})
	}
}

// TestUnchangedReportsDifferencesAfterRollback checks that
// compareUnchanged returns an error for each difference after a rollback.
func TestUnchangedReportsDifferencesAfterRollback(t *testing.T) {
	before := map[string]resource{
		"s/Table":   {resourceType: "AWS::DynamoDB::Table", physicalID: "t"},
		"s/OneLive": {resourceType: aliasType, physicalID: "one:live", version: "1"},
	}
	for name, tc := range map[string]struct {
		id      string
		current resource // the zero value if it was deleted
		want    string   // "" for no error
	}{
		"no change": {"s/Table", before["s/Table"], ""},
		"a leftover resource": {
			"s/Alarm",
			resource{resourceType: "AWS::CloudWatch::Alarm", physicalID: "a"},
			"s/Alarm, an AWS::CloudWatch::Alarm, is left",
		},
		"a deleted resource": {"s/Table", resource{}, "s/Table, an AWS::DynamoDB::Table, is not what it was"},
		"an alias with the new version": {
			"s/OneLive",
			resource{resourceType: aliasType, physicalID: "one:live", version: "2"},
			"s/OneLive, an AWS::Lambda::Alias, is not what it was",
		},
	} {
		t.Run(name, func(t *testing.T) {
			after := maps.Clone(before)
			after[tc.id] = tc.current
			if tc.current.resourceType == "" {
				delete(after, tc.id)
			}
			_, err := compareUnchanged(before, after)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("compareUnchanged() = %v, want no error", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("compareUnchanged() = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestResourcesOfNewerVersionAreIgnoredOnDowngrade checks that
// releasedResources omits only resources that the last release does not have.
func TestResourcesOfNewerVersionAreIgnoredOnDowngrade(t *testing.T) {
	s := &suite{dir: t.TempDir()}
	table := resource{resourceType: "AWS::DynamoDB::Table", physicalID: "t"}
	if err := s.saveResourceNames(map[string]resource{"s/Table": table}); err != nil {
		t.Fatal(err)
	}
	got, err := s.releasedResources(map[string]resource{
		"s/Table": table,
		"n/Queue": {resourceType: "AWS::SQS::Queue", physicalID: "q"},
	})
	if err != nil || !maps.Equal(got, map[string]resource{"s/Table": table}) {
		t.Errorf("releasedResources() = %v, %v, want the table and no error", got, err)
	}
	if got, err := s.releasedResources(map[string]resource{"n/Queue": {}}); err == nil {
		t.Errorf("releasedResources(none of the last release) = %v, want an error", got)
	}
}
