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

// resource is a resource of an installation, as CloudFormation describes it.
type resource struct {
	resourceType, physicalID string
	// version is the function version of an alias.
	version string
}

const aliasType = "AWS::Lambda::Alias"

// replacedTypes are the types of resources that each release replaces. dataTypes are the types
// of resources that contain data or have an address, which would be lost with the resource.
var (
	replacedTypes = []string{"AWS::Lambda::Version", "AWS::ApiGateway::Deployment"}
	dataTypes     = []string{
		"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::KMS::Key", "AWS::SQS::Queue", "AWS::Logs::LogGroup",
		"AWS::ApiGateway::RestApi", "AWS::ApiGateway::Stage", "AWS::Lambda::Function", aliasType,
		"AWS::Lambda::EventSourceMapping",
	}
)

// compare returns one line that summarizes how an update has changed an installation's resources. Its error has a line
// for each replaced resource (except those of replacedTypes), for each deleted resource of dataTypes, and for each
// alias that still has its former version.
func compare(before, after map[string]resource) (string, error) {
	var errs []error
	unchanged, replaced, moved := 0, 0, 0
	for _, id := range slices.Sorted(maps.Keys(before)) {
		prior := before[id]
		current, exists := after[id]
		switch {
		case slices.Contains(replacedTypes, prior.resourceType):
			if !exists || current.physicalID != prior.physicalID {
				replaced++
			}
		case !exists && slices.Contains(dataTypes, prior.resourceType):
			errs = append(errs, fmt.Errorf("%s, an %s, is gone by the update, and what it holds with it", id,
				prior.resourceType))
		case !exists:
		case current.physicalID != prior.physicalID:
			errs = append(errs, fmt.Errorf("%s, an %s, is another one by the update: %s in place of %s", id, prior.resourceType,
				current.physicalID, prior.physicalID))
		default:
			unchanged++
		}
		if prior.resourceType != aliasType || !exists {
			continue
		}
		if current.version == prior.version {
			errs = append(errs, fmt.Errorf("%s leads to version %s, as before the update: what was deployed is not called", id,
				current.version))
			continue
		}
		moved++
	}
	added := 0
	for id, current := range after {
		if _, existed := before[id]; !existed && !slices.Contains(replacedTypes, current.resourceType) {
			added++
		}
	}
	return fmt.Sprintf("%d resources stay, %d are new, %d aliases lead to other versions, %d versions and "+
		"deployments made way",
		unchanged, added, moved, replaced), errors.Join(errs...)
}

// compareUnchanged compares the resources before and after an update that was rolled back or changed nothing.
// It returns one line that says that they are equal. Its error has a line for each resource that differs.
func compareUnchanged(before, after map[string]resource) (string, error) {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if current, exists := after[id]; !exists || current != before[id] {
			errs = append(errs, fmt.Errorf("%s, an %s, is not what it was before the update: %v in place of %v", id,
				before[id].resourceType, current, before[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if _, exists := before[id]; !exists {
			errs = append(errs, fmt.Errorf("%s, an %s, is left of an update that should have left nothing", id,
				after[id].resourceType))
		}
	}
	return fmt.Sprintf("all %d resources are what they were", len(before)), errors.Join(errs...)
}

// resources returns all resources of the installation, by stack and logical ID.
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
		if err := s.addStackResources(ctx, stack, out); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the emulator knows no resource of the installation")
	}
	return out, nil
}

// addStackResources adds the resources of a stack to out.
func (s *suite) addStackResources(ctx context.Context, stack string, out map[string]resource) error {
	for token := ""; ; {
		var page struct {
			Members []struct {
				LogicalResourceID  string `xml:"LogicalResourceId"`
				PhysicalResourceID string `xml:"PhysicalResourceId"`
				ResourceType       string
			} `xml:"ListStackResourcesResult>StackResourceSummaries>member"`
			NextToken string `xml:"ListStackResourcesResult>NextToken"`
		}
		if err := s.cloudFormation(ctx, &page, url.Values{
			"Action": {"ListStackResources"}, "StackName": {stack},
			"NextToken": {token},
		}); err != nil {
			return err
		}
		for _, m := range page.Members {
			r := resource{resourceType: m.ResourceType, physicalID: m.PhysicalResourceID}
			if r.resourceType == aliasType {
				var err error
				if r.version, err = s.aliasVersion(ctx, r.physicalID); err != nil {
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

// aliasVersion returns the function version of an alias.
func (s *suite) aliasVersion(ctx context.Context, arn string) (string, error) {
	parts := strings.Split(arn, ":")
	if len(parts) < 2 {
		return "", fmt.Errorf("%q is no alias", arn)
	}
	var alias struct{ FunctionVersion string }
	err := s.request(ctx, http.MethodGet, "/2015-03-31/functions/"+parts[len(parts)-2]+"/aliases/"+parts[len(parts)-1],
		nil,
		func(resp *http.Response) error { return json.NewDecoder(resp.Body).Decode(&alias) })
	return alias.FunctionVersion, err
}

// cloudFormation sends a query to CloudFormation and decodes the XML response into out.
func (s *suite) cloudFormation(ctx context.Context, out any, query url.Values) error {
	query.Set("Version", "2010-05-15")
	if query.Get("NextToken") == "" {
		query.Del("NextToken")
	}
	return s.request(ctx, http.MethodPost, "/", query, func(resp *http.Response) error {
		return xml.NewDecoder(resp.Body).Decode(out)
	})
}

// request sends a request to the emulator, without a signature. If the response has the status 200, request calls read
// with it.
func (s *suite) request(
	ctx context.Context, method, path string, form url.Values, read func(*http.Response) error,
) error {
	//nolint:gosec // G704: the emulator that this program started
	r, err := http.NewRequestWithContext(ctx, method, s.endpoint+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultClient.Do(r) //nolint:gosec // G704: as above
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status = %s, want 200", method, path, resp.Status)
	}
	if err := read(resp); err != nil {
		return fmt.Errorf("read the response to %s %s: %w", method, path, err)
	}
	return nil
}
