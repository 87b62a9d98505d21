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

// taken refuses a deployment that would create a bucket or a log group whose name is in use: CloudFormation creates nothing that exists, and a
// stack that was deleted has left these if its stage was protected.
func taken(ctx context.Context, p preflight) (findings []string, err error) {
	known := map[string]string{"AWS::Region": p.region}
	news := map[string][]any{} // the names of resources that are created, by type
	for at, r := range resources(p.planned) {
		if name := nameOf(r); name != nil && resourceAt(p.deployed, at).Type != r.Type {
			news[r.Type] = append(news[r.Type], name)
		}
	}
	if len(news[bucketType])+len(news[logGroupType]) == 0 {
		return nil, nil
	}
	left, err := p.leftByFailed(ctx)
	if err != nil {
		return nil, err
	}
	names := func(kind string) (out []string, err error) {
		for _, of := range news[kind] {
			if strings.Contains(fmt.Sprint(of), "${AWS::AccountId}") && known["AWS::AccountId"] == "" {
				if known["AWS::AccountId"], err = p.accountID(ctx); err != nil {
					return nil, err
				}
			}
			if name, is := written(of, known); is && !slices.Contains(left, name) {
				out = append(out, name)
			}
		}
		return out, nil
	}
	buckets, err := names(bucketType)
	if err != nil {
		return nil, err
	}
	var unread []error
	for _, bucket := range buckets {
		finding, err := p.takenBucket(ctx, bucket)
		unread = append(unread, err)
		if finding != "" {
			findings = append(findings, finding)
		}
	}
	groups, err := names(logGroupType)
	if err != nil {
		return findings, err
	}
	if groups, err = p.existingLogs(ctx, groups); len(groups) > 0 {
		findings = append(findings, fmt.Sprintf("CloudWatch Logs has %d log groups that this deployment would create, for example of a stack that was deleted: keep what you need of them, and type for name in %s; do aws logs delete-log-group --region %s --log-group-name $name; done, "+
			"or deploy another stage", len(groups), strings.Join(groups, " "), p.region))
	}
	return findings, errors.Join(append(unread, err)...)
}

// The types of resources with names that are the same in each stack of a stage.
const (
	bucketType   = "AWS::S3::Bucket"
	logGroupType = "AWS::Logs::LogGroup"
)

// nameOf returns the name that a template gives to a resource that can be left behind, nil if it gives none.
func nameOf(r removals.Resource) any {
	for _, of := range retainedTypes {
		if r.Type == of.kind && of.nameProperty != "" {
			return r.Properties[of.nameProperty]
		}
	}
	return nil
}

// resourceAt returns the resource of a path as resources has it.
func resourceAt(s removals.Stack, at string) removals.Resource {
	stack, id := path.Split(at)
	return s.Templates[strings.TrimSuffix(stack, "/")].Resources[id]
}

// written returns the name that a template spells out, with the values of pseudo parameters. Of other names only CloudFormation knows the value.
func written(name any, known map[string]string) (string, bool) {
	text, is := name.(string)
	if of, nested := name.(map[string]any); nested && len(of) == 1 {
		text, is = of["Fn::Sub"].(string)
	}
	for parameter, value := range known {
		text = strings.ReplaceAll(text, "${"+parameter+"}", value)
	}
	return text, is && !strings.Contains(text, "${")
}

// accountID returns the id of the AWS account.
func (p preflight) accountID(ctx context.Context) (string, error) {
	var id string
	if err := p.read(ctx, &id, "sts", "get-caller-identity", "--query", "Account"); err != nil {
		return "", err
	}
	if id == "" {
		return "", errNoAnswer
	}
	return id, nil
}

// leftByFailed returns the names of what a failed stack leaves behind, about which remains says what to do.
func (p preflight) leftByFailed(ctx context.Context) (names []string, err error) {
	if p.deployed.Failed == nil {
		return nil, nil
	}
	all, err := p.leftovers(ctx, p.deployed.Failed.ID, "")
	for _, l := range all {
		names = append(names, l.id)
	}
	return names, err
}

// takenBucket returns a finding if a bucket exists. S3 answers 403 about a bucket that may not be read, whether it exists or not.
func (p preflight) takenBucket(ctx context.Context, name string) (finding string, err error) {
	_, err = p.ask(ctx, "s3api", "head-bucket", "--bucket", name, "--region", p.region)
	switch {
	case failedWith(err, "404"):
		return "", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("the bucket %[1]s exists, which this deployment would create, for example of a stack that was deleted: move what is in it (docs/aws.md, A stack that was deleted), "+
		"empty it, old versions too, and type aws s3api delete-bucket --region %[2]s --bucket %[1]s, or deploy another stage", name, p.region), nil
}

// existingLogs returns which of the log groups exist.
func (p preflight) existingLogs(ctx context.Context, planned []string) (out []string, err error) {
	folders := map[string]bool{}
	for _, name := range planned {
		folders[path.Dir(name)+"/gatewright-"+p.stage+"-"] = true
	}
	for _, prefix := range slices.Sorted(maps.Keys(folders)) {
		var names []string
		if err := p.read(ctx, &names, "logs", "describe-log-groups", "--region", p.region, "--log-group-name-prefix", prefix, "--query", "logGroups[].logGroupName"); err != nil {
			return out, err
		}
		if names == nil {
			return out, errNoAnswer
		}
		for _, name := range names {
			if slices.Contains(planned, name) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}
