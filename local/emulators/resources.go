package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// resource is one of an installation's, as CloudFormation knows it.
type resource struct {
	kind, physical string
	// version is that to which an alias leads.
	version string
}

const aliasKind = "AWS::Lambda::Alias"

// Resources of which each release has others, and those that hold data or an address: whoever loses one has lost that.
var (
	madeAnew = []string{"AWS::Lambda::Version", "AWS::ApiGateway::Deployment"}
	holding  = []string{
		"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::KMS::Key", "AWS::SQS::Queue", "AWS::Logs::LogGroup",
		"AWS::ApiGateway::RestApi", "AWS::ApiGateway::Stage", "AWS::Lambda::Function", aliasKind, "AWS::Lambda::EventSourceMapping",
	}
)

// compare tells in one line what became of an installation's resources by an update. Its error has a line for each that is
// another one, or is gone with what it holds, and for each function of which the version before is called still.
func compare(before, after map[string]resource) (string, error) {
	var wrong []error
	kept, again, moved := 0, 0, 0
	for _, id := range slices.Sorted(maps.Keys(before)) {
		was := before[id]
		is, there := after[id]
		switch {
		case slices.Contains(madeAnew, was.kind):
			if !there || is.physical != was.physical {
				again++
			}
		case !there && slices.Contains(holding, was.kind):
			wrong = append(wrong, fmt.Errorf("%s, an %s, is gone by the update, and what it holds with it", id, was.kind))
		case !there:
		case is.physical != was.physical:
			wrong = append(wrong, fmt.Errorf("%s, an %s, is another one by the update: %s in place of %s", id, was.kind, is.physical, was.physical))
		default:
			kept++
		}
		if was.kind != aliasKind || !there {
			continue
		}
		if is.version == was.version {
			wrong = append(wrong, fmt.Errorf("%s leads to version %s, as before the update: what was deployed is not called", id, is.version))
			continue
		}
		moved++
	}
	added := 0
	for id, is := range after {
		if _, was := before[id]; !was && !slices.Contains(madeAnew, is.kind) {
			added++
		}
	}
	return fmt.Sprintf("%d resources stay, %d are new, %d aliases lead to other versions, %d versions and deployments made way",
		kept, added, moved, again), errors.Join(wrong...)
}

// unchanged tells that an installation is what it was before an update that was taken back, or had nothing to change. Its error has a
// line for each resource that is not: versions that were published meanwhile and are removed again are none.
func unchanged(before, after map[string]resource) (string, error) {
	var wrong []error
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if is, there := after[id]; !there || is != before[id] {
			wrong = append(wrong, fmt.Errorf("%s, an %s, is not what it was before the update: %v in place of %v", id, before[id].kind, is, before[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[id]; !there {
			wrong = append(wrong, fmt.Errorf("%s, an %s, is left of an update that should have left nothing", id, after[id].kind))
		}
	}
	return fmt.Sprintf("all %d resources are what they were", len(before)), errors.Join(wrong...)
}

// resources are all of the installation's, by stack and logical id.
func (s *suite) resources(ctx context.Context) (map[string]resource, error) {
	var stacks struct {
		Names []string `xml:"ListStacksResult>StackSummaries>member>StackName"`
	}
	if err := s.cloudFormation(ctx, &stacks, url.Values{"Action": {"ListStacks"}}); err != nil {
		return nil, err
	}
	out := map[string]resource{}
	for _, stack := range stacks.Names {
		if !strings.HasPrefix(stack, "gatewright-"+stage) {
			continue
		}
		if err := s.resourcesOf(ctx, stack, out); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the emulator knows no resource of the installation")
	}
	return out, nil
}

// resourcesOf adds those of a stack.
func (s *suite) resourcesOf(ctx context.Context, stack string, out map[string]resource) error {
	for token := ""; ; {
		var page struct {
			Members []struct {
				LogicalResourceID  string `xml:"LogicalResourceId"`
				PhysicalResourceID string `xml:"PhysicalResourceId"`
				ResourceType       string
			} `xml:"ListStackResourcesResult>StackResourceSummaries>member"`
			NextToken string `xml:"ListStackResourcesResult>NextToken"`
		}
		if err := s.cloudFormation(ctx, &page, url.Values{"Action": {"ListStackResources"}, "StackName": {stack}, "NextToken": {token}}); err != nil {
			return err
		}
		for _, m := range page.Members {
			r := resource{kind: m.ResourceType, physical: m.PhysicalResourceID}
			if r.kind == aliasKind {
				var err error
				if r.version, err = s.versionOf(ctx, r.physical); err != nil {
					return err
				}
			}
			out[stack+"/"+m.LogicalResourceID] = r
		}
		if token = page.NextToken; token == "" {
			return nil
		}
	}
}

// versionOf is the version to which an alias leads.
func (s *suite) versionOf(ctx context.Context, arn string) (string, error) {
	parts := strings.Split(arn, ":")
	if len(parts) < 2 {
		return "", fmt.Errorf("%q is no alias", arn)
	}
	var alias struct{ FunctionVersion string }
	err := s.request(ctx, http.MethodGet, "/2015-03-31/functions/"+parts[len(parts)-2]+"/aliases/"+parts[len(parts)-1], nil,
		func(answer *http.Response) error { return json.NewDecoder(answer.Body).Decode(&alias) })
	return alias.FunctionVersion, err
}

// cloudFormation asks the service for what it answers in XML.
func (s *suite) cloudFormation(ctx context.Context, to any, query url.Values) error {
	query.Set("Version", "2010-05-15")
	if query.Get("NextToken") == "" {
		query.Del("NextToken")
	}
	return s.request(ctx, http.MethodPost, "/", query, func(answer *http.Response) error { return xml.NewDecoder(answer.Body).Decode(to) })
}

// request asks the emulator, which wants no signature, and hands over the answer if it is a good one.
func (s *suite) request(ctx context.Context, method, path string, form url.Values, read func(*http.Response) error) error {
	r, err := http.NewRequestWithContext(ctx, method, s.endpoint+path, strings.NewReader(form.Encode())) //nolint:gosec // G704: the emulator that this program started
	if err != nil {
		return err
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := http.DefaultClient.Do(r) //nolint:gosec // G704: as above
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the emulator answers %s %s with %s", method, path, answer.Status)
	}
	if err := read(answer); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return nil
}
