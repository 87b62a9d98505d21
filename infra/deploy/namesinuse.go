package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/infra/removals"
)

// namesInUseFindings returns findings for buckets and log groups that the deployment would create, but whose names are
// in use. CloudFormation does not create resources that exist. The buckets and log groups of a protected stage are kept
// when its stack is deleted.
func namesInUseFindings(ctx context.Context, p preflight) (findings []string, err error) {
	pseudoParameters := map[string]string{"AWS::Region": p.region}
	newNames := map[string][]any{} // the names of the resources that would be created, by type
	for address, r := range resources(p.planned) {
		if name := nameOf(r); name != nil && resourceAt(p.deployed, address).Type != r.Type {
			newNames[r.Type] = append(newNames[r.Type], name)
		}
	}
	if len(newNames[bucketType])+len(newNames[logGroupType]) == 0 {
		return nil, nil
	}
	ignored, err := p.leftoverNames(ctx)
	if err != nil {
		return nil, err
	}
	names := func(kind string) (out []string, err error) {
		for _, value := range newNames[kind] {
			if strings.Contains(fmt.Sprint(value), "${AWS::AccountId}") && pseudoParameters["AWS::AccountId"] == "" {
				if pseudoParameters["AWS::AccountId"], err = p.accountID(ctx); err != nil {
					return nil, err
				}
			}
			if name, ok := resolveName(value, pseudoParameters); ok && !slices.Contains(ignored, name) {
				out = append(out, name)
			}
		}
		return out, nil
	}
	buckets, err := names(bucketType)
	if err != nil {
		return nil, err
	}
	var readErrs []error
	for _, bucket := range buckets {
		finding, err := p.bucketFinding(ctx, bucket)
		readErrs = append(readErrs, err)
		if finding != "" {
			findings = append(findings, finding)
		}
	}
	groups, err := names(logGroupType)
	if err != nil {
		return findings, err
	}
	if groups, err = p.existingLogGroups(ctx, groups); len(groups) > 0 {
		findings = append(findings, fmt.Sprintf("CloudWatch Logs has %d log groups that this deployment would create, for "+
			"example of a stack that was deleted: keep what you need of them, and type for name in %s; do aws logs "+
			"delete-log-group --region %s --log-group-name $name; done, "+
			"or deploy another stage", len(groups), strings.Join(groups, " "), p.region))
	}
	return findings, errors.Join(append(readErrs, err)...)
}

// Resources of these types can have names that are in use after a stack was deleted: a new stack of the stage needs the
// same names.
const (
	bucketType   = "AWS::S3::Bucket"
	logGroupType = "AWS::Logs::LogGroup"
)

// nameOf returns the name that a template assigns to a resource of a retainedType. It returns nil for other types, and
// for a resource without a name.
func nameOf(r removals.Resource) any {
	for _, rt := range retainedTypes {
		if r.Type == rt.kind && rt.nameProperty != "" {
			return r.Properties[rt.nameProperty]
		}
	}
	return nil
}

// resourceAt returns the resource at a path. resources() returns paths in the same form.
func resourceAt(s removals.Stack, address string) removals.Resource {
	stack, id := path.Split(address)
	return s.Templates[strings.TrimSuffix(stack, "/")].Resources[id]
}

// resolveName returns a name as text, if it is a literal or contains only the pseudo parameters in values. Only
// CloudFormation knows other names.
func resolveName(name any, values map[string]string) (string, bool) {
	text, ok := name.(string)
	if fn, isMap := name.(map[string]any); isMap && len(fn) == 1 {
		text, ok = fn["Fn::Sub"].(string)
	}
	for parameter, value := range values {
		text = strings.ReplaceAll(text, "${"+parameter+"}", value)
	}
	return text, ok && !strings.Contains(text, "${")
}

// accountID returns the id of the AWS account.
func (p preflight) accountID(ctx context.Context) (string, error) {
	var id string
	if err := p.query(ctx, &id, "sts", "get-caller-identity", "--query", "Account"); err != nil {
		return "", err
	}
	if id == "" {
		return "", errEmptyReply
	}
	return id, nil
}

// leftoverNames returns the names of the resources that a failed stack leaves behind. leftoverFindings reports what to
// do about them.
func (p preflight) leftoverNames(ctx context.Context) (names []string, err error) {
	if p.deployed.Failed == nil {
		return nil, nil
	}
	all, err := p.leftovers(ctx, p.deployed.Failed.ID, "")
	for _, l := range all {
		names = append(names, l.id)
	}
	return names, err
}

// bucketFinding returns a finding if a bucket exists. S3 returns 403 if the caller has no read access, whether the
// bucket exists or not.
func (p preflight) bucketFinding(ctx context.Context, name string) (finding string, err error) {
	_, err = p.runAWS(ctx, "s3api", "head-bucket", "--bucket", name, "--region", p.region)
	switch {
	case hasErrorCode(err, "404"):
		return "", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("the bucket %[1]s exists, which this deployment would create, for example of a stack that was "+
		"deleted: move what is in it (docs/aws.md, A stack that was deleted), "+
		"empty it, old versions too, and type aws s3api delete-bucket --region %[2]s --bucket %[1]s, or deploy another stage",
		name, p.region), nil
}

// existingLogGroups returns the names of those planned log groups that exist already.
func (p preflight) existingLogGroups(ctx context.Context, planned []string) (out []string, err error) {
	prefixes := map[string]bool{}
	for _, name := range planned {
		prefixes[path.Dir(name)+"/gatewright-"+p.stage+"-"] = true
	}
	for _, prefix := range slices.Sorted(maps.Keys(prefixes)) {
		var names []string
		if err := p.query(ctx, &names, "logs", "describe-log-groups", "--region", p.region, "--log-group-name-prefix", prefix,
			"--query", "logGroups[].logGroupName"); err != nil {
			return out, err
		}
		if names == nil {
			return out, errEmptyReply
		}
		for _, name := range names {
			if slices.Contains(planned, name) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}
