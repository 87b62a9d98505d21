package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/infra/removals"
	"github.com/gatewright/gatewright/shared/cloud/signin"
)

// check is something that has to be right in the account before anything is created in it.
type check struct {
	// subject is what is checked, as the start of a sentence.
	subject string
	// reads is the permission that the check needs.
	reads string
	// docs is the page of AWS that the check follows.
	docs string
	// late says that AWS shows what somebody has just made only after some seconds, so that a finding is read a second time.
	late bool
	// find returns a line for each finding, which says what is wrong and what to do. The error says why AWS could not be asked. Findings that
	// come with an error count.
	find func(ctx context.Context, p preflight) (findings []string, err error)
}

// checks are what a deployment reads before it asks. What each of them requires is derived from the planned templates. A check that finds
// nothing new in the templates asks AWS nothing.
var checks = []check{
	{
		subject: "The CDK's bootstrap stack", reads: "ssm:GetParameters", find: bootstrap,
		docs: "https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html",
	},
	{
		subject: "The account's concurrency in Lambda", reads: "lambda:GetAccountSettings", find: concurrency,
		docs: "https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html",
	},
	{
		subject: "The certificate of domain names", reads: "acm:DescribeCertificate", late: true, find: certificates,
		docs: "https://docs.aws.amazon.com/acm/latest/APIReference/API_DescribeCertificate.html",
	},
	{
		subject: "The certificate of services", reads: "ssm:GetParameters", find: serviceCertificates,
		docs: "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/secrets-envvar-ssm-paramstore.html",
	},
	{
		subject: "The service-linked roles", reads: "iam:ListRoles", late: true, find: serviceLinkedRoles,
		docs: "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create-service-linked-role.html",
	},
	{
		subject: "The role for access logs of API Gateway", reads: "apigateway:GET", find: logRole,
		docs: "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-apigateway-account.html",
	},
	{
		subject: "Whether CloudFormation creates budgets", reads: "cloudformation:DescribeType", find: budgetType,
		docs: "https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeType.html",
	},
	{
		subject: "Whether names are in use", reads: "s3:ListBucket, logs:DescribeLogGroups", late: true, find: taken,
		docs: "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-name.html",
	},
	{
		subject: "The remains of the failed stack", reads: "cloudformation:ListStackResources", find: remains,
		docs: "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html",
	},
}

// preflight is what checks are about, and how they ask.
type preflight struct {
	stage, region     string
	deployed, planned removals.Stack
	account           account
	// ask runs the AWS command line.
	ask signin.Ask
	// out takes lines about what is no finding.
	out io.Writer
}

// file is where the settings of the stage are.
func (p preflight) file() string { return path.Join("infra/stages", p.stage+".json") }

// preflight runs all checks, and refuses the deployment if they have findings. A check that cannot ask AWS is reported in one line and
// refuses nothing: who may deploy need not be allowed to read everything.
func (d deployment) preflight(ctx context.Context, deployed, planned removals.Stack) error {
	here, err := d.region(ctx)
	if err != nil {
		return err
	}
	account, err := d.account(ctx)
	if err != nil {
		return err
	}
	p := preflight{stage: d.stage, region: here, deployed: deployed, planned: planned, account: account, ask: d.ask, out: d.out}
	var lines []string
	for _, c := range checks {
		findings, err := c.find(ctx, p)
		if c.late && err == nil && len(findings) > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(d.settle):
			}
			var again []string
			if again, err = c.find(ctx, p); err == nil {
				findings = again
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			where, then := "", " The deployment goes on."
			if d.elsewhere != "" {
				where = " in " + d.elsewhere
			}
			if len(findings) > 0 {
				where, then = " to the end"+where, ""
			}
			_, _ = fmt.Fprintf(d.out, "%s could not be checked%s, which needs %s (%s).%s\n", c.subject, where, c.reads, oneLine(err), then)
		}
		lines = append(lines, findings...)
	}
	if len(lines) > 0 {
		return refusal(strings.Join(lines, "\n"))
	}
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// errNoAnswer is the error of a reply that does not contain what was asked for.
var errNoAnswer = errors.New("the reply is empty")

// read runs the AWS command line, and decodes the JSON that it prints.
func (p preflight) read(ctx context.Context, into any, args ...string) error {
	text, err := p.ask(ctx, append(args, "--output", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("read the reply of aws %s: %w", strings.Join(args[:2], " "), err)
	}
	return nil
}

// failedWith reports whether the AWS command line has printed an error of AWS with this code.
func failedWith(err error, code string) bool {
	return err != nil && strings.Contains(err.Error(), "("+code+")")
}

// resources returns all resources of a stack with those of nested stacks, in the order of their paths.
func resources(s removals.Stack) iter.Seq2[string, removals.Resource] {
	return func(yield func(string, removals.Resource) bool) {
		for _, stack := range slices.Sorted(maps.Keys(s.Templates)) {
			all := s.Templates[stack].Resources
			for _, id := range slices.Sorted(maps.Keys(all)) {
				if !yield(path.Join(stack, id), all[id]) {
					return
				}
			}
		}
	}
}

// parameters reads values of Parameter Store, and returns the names that it does not have. Secrets are not decrypted, and nothing is printed.
func (p preflight) parameters(ctx context.Context, names ...string) (values map[string]string, missing []string, err error) {
	var reply struct {
		Parameters        []struct{ Name, Value string }
		InvalidParameters []string
	}
	if err := p.read(ctx, &reply, append([]string{"ssm", "get-parameters", "--names"}, names...)...); err != nil {
		return nil, nil, err
	}
	values = map[string]string{}
	for _, parameter := range reply.Parameters {
		values[parameter.Name] = parameter.Value
	}
	if len(values)+len(reply.InvalidParameters) < len(names) {
		return nil, nil, errNoAnswer
	}
	return values, reply.InvalidParameters, nil
}

// bootstrap checks that the account has the bootstrap stack of the CDK in this region, in a version that the template accepts.
func bootstrap(ctx context.Context, p preflight) ([]string, error) {
	parameter, minimum := p.planned.Bootstrap()
	if parameter == "" {
		return nil, nil
	}
	values, missing, err := p.parameters(ctx, parameter)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return []string{fmt.Sprintf("the CDK has no bootstrap stack in %[1]s of this account (Parameter Store has no %[2]s): type make bootstrap AWS_REGION=%[1]s", p.region, parameter)}, nil
	}
	version, err := strconv.Atoi(values[parameter])
	if err != nil {
		return nil, fmt.Errorf("the value of %s is no version: %w", parameter, err)
	}
	if version < minimum {
		return []string{fmt.Sprintf("the CDK's bootstrap stack in %[1]s of this account has version %[2]d, and the templates need version %[3]d: type make bootstrap AWS_REGION=%[1]s", p.region, version, minimum)}, nil
	}
	return nil, nil
}

// What Lambda says of concurrency: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html.
const (
	// keptUnreserved is how much of an account's concurrency cannot be reserved.
	keptUnreserved = 100
	// defaultConcurrency is the quota of an account that is not new, and what a new account asks for.
	defaultConcurrency = 1000
)

// accountSettings are what Lambda says of the account.
type accountSettings interface {
	GetAccountSettings(context.Context, *lambda.GetAccountSettingsInput, ...func(*lambda.Options)) (*lambda.GetAccountSettingsOutput, error)
}

var _ accountSettings = (*lambda.Client)(nil)

// concurrency checks that the account has as much unreserved concurrency as the planned functions reserve. What deployed functions reserve is
// theirs already. What other functions would give back does not count: CloudFormation changes functions in any order.
func concurrency(ctx context.Context, p preflight) ([]string, error) {
	reserved := func(s removals.Stack) map[string]int {
		out := map[string]int{}
		for at, r := range resources(s) {
			if n, _ := r.Properties["ReservedConcurrentExecutions"].(float64); r.Type == "AWS::Lambda::Function" {
				out[at] = int(n)
			}
		}
		return out
	}
	had, more := reserved(p.deployed), 0
	for at, n := range reserved(p.planned) {
		more += max(n-had[at], 0)
	}
	called := 0 // at the same time, by the hook of releases
	if total(reserved(p.planned)) == 0 {
		called = hooked(p)
	}
	if more == 0 && called == 0 {
		return nil, nil
	}
	reply, err := p.account.functions.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return nil, err
	}
	if reply.AccountLimit == nil || reply.AccountLimit.UnreservedConcurrentExecutions == nil || reply.AccountLimit.ConcurrentExecutions == 0 {
		return nil, errNoAnswer
	}
	limit, unreserved := int(reply.AccountLimit.ConcurrentExecutions), int(*reply.AccountLimit.UnreservedConcurrentExecutions)
	if called > unreserved {
		return []string{fmt.Sprintf("Lambda runs at most %d calls at once for this account in %s, and a release needs %d, because a hook calls each new version before it gets traffic: "+
			`add "canary": false to %s until the account has a higher quota`, limit, p.region, called, p.file())}, nil
	}
	short := more + keptUnreserved - unreserved
	if more == 0 || short <= 0 {
		return nil, nil
	}
	return []string{fmt.Sprintf("Lambda runs at most %d calls at once for this account in %s, of which %d are unreserved; functions would reserve %d more, and %d have to stay unreserved: "+
		"type aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value %d --region %s, or set a lower concurrency in %s (0 reserves nothing)",
		limit, p.region, unreserved, more, keptUnreserved, max(limit+short, defaultConcurrency), p.region, p.file())}, nil
}

// hooked returns how many calls the hook of releases makes at the same time, its own included: two for each alias that is moved through CodeDeploy.
// An alias that is created is not moved.
func hooked(p preflight) (calls int) {
	for at, r := range resources(p.planned) {
		policy, _ := r.UpdatePolicy["CodeDeployLambdaAliasUpdate"].(map[string]any)
		if policy["BeforeAllowTrafficHook"] != nil && resourceAt(p.deployed, at).Type == r.Type {
			calls += 2
		}
	}
	return calls
}

func total(of map[string]int) (sum int) {
	for _, n := range of {
		sum += n
	}
	return sum
}

// domains returns the domain names of APIs in a stack by the ARN of their certificate.
func domains(s removals.Stack) map[string][]string {
	out := map[string][]string{}
	for _, r := range resources(s) {
		arn, _ := r.Properties["RegionalCertificateArn"].(string)
		if name, _ := r.Properties["DomainName"].(string); r.Type == "AWS::ApiGateway::DomainName" && arn != "" && name != "" {
			out[arn] = append(out[arn], name)
		}
	}
	return out
}

// certificates checks that each certificate of ACM is issued and covers its domain names. A name that is deployed with the certificate is not
// checked again, so that an old certificate stops no repair.
func certificates(ctx context.Context, p preflight) (findings []string, err error) {
	had, planned := domains(p.deployed), domains(p.planned)
	for _, arn := range slices.Sorted(maps.Keys(planned)) {
		if !slices.ContainsFunc(planned[arn], func(name string) bool { return !slices.Contains(had[arn], name) }) {
			continue
		}
		another := fmt.Sprintf("type aws acm request-certificate --validation-method DNS --region %s --domain-name '%s', and set certificateArn in %s to its ARN",
			p.region, strings.Join(planned[arn], "' --subject-alternative-names '"), p.file())
		var reply struct {
			Certificate struct {
				Status, DomainName      string
				SubjectAlternativeNames []string
			}
		}
		err := p.read(ctx, &reply, "acm", "describe-certificate", "--certificate-arn", arn, "--region", p.region)
		of := reply.Certificate
		switch {
		case failedWith(err, "ResourceNotFoundException"):
			findings = append(findings, fmt.Sprintf("ACM has no certificate %s: %s", arn, another))
			continue
		case err != nil:
			return findings, err
		case of.Status == "":
			return findings, errNoAnswer
		case of.Status == "PENDING_VALIDATION":
			findings = append(findings, fmt.Sprintf("the certificate %[1]s is not issued yet: create the DNS records that aws acm describe-certificate --certificate-arn %[1]s --region %[2]s --query 'Certificate.DomainValidationOptions[].ResourceRecord' prints, "+
				"and deploy when aws acm wait certificate-validated --certificate-arn %[1]s --region %[2]s has ended", arn, p.region))
			continue
		case of.Status != "ISSUED":
			findings = append(findings, fmt.Sprintf("the certificate %s is %s, and API Gateway takes only one that is ISSUED: %s", arn, of.Status, another))
			continue
		}
		covered := append(of.SubjectAlternativeNames, of.DomainName)
		for _, name := range planned[arn] {
			if !slices.ContainsFunc(covered, func(by string) bool { return covers(by, name) }) {
				findings = append(findings, fmt.Sprintf("the certificate %s does not cover %s: %s", arn, name, another))
				break
			}
		}
	}
	return findings, nil
}

// covers reports whether a name of a certificate covers a domain name. A wildcard covers one label.
func covers(by, name string) bool {
	_, above, _ := strings.Cut(name, ".")
	return strings.EqualFold(by, name) || strings.EqualFold(by, "*."+above)
}

// serviceCertificates checks that Parameter Store has the certificate of each service: tasks do not start without it, and CloudFormation
// waits for them for hours before it rolls back.
func serviceCertificates(ctx context.Context, p preflight) (findings []string, err error) {
	names := p.planned.Parameters()
	if len(names) == 0 {
		return nil, nil
	}
	_, missing, err := p.parameters(ctx, names...)
	for _, name := range missing {
		service := strings.TrimSuffix(path.Base(name), "-certificate")
		findings = append(findings, fmt.Sprintf("the service %[1]s has no certificate, without which its tasks do not start: keep one by make service-certificate SERVICE=%[1]s STAGE=%[2]s (docs/aws.md)", service, p.stage))
	}
	return findings, err
}

// linkedRole is a service-linked role that has to exist before a resource is created.
type linkedRole struct {
	name, service string
	// needs reports whether a resource needs the role.
	needs func(r removals.Resource) bool
}

// linkedRoles are the roles that AWS creates at the first use in an account and assumes in the same moment, which fails: IAM shows a new role
// to other services only after some seconds. Other services create their roles and wait for them, or need none for what the templates have:
// load balancers, domain names of API Gateway, tables, web ACLs.
var linkedRoles = []linkedRole{
	{name: "AWSServiceRoleForECS", service: "ecs.amazonaws.com", needs: func(r removals.Resource) bool {
		return r.Type == "AWS::ECS::Cluster" || r.Type == "AWS::ECS::Service"
	}},
	{name: "AWSServiceRoleForApplicationAutoScaling_ECSService", service: "ecs.application-autoscaling.amazonaws.com", needs: func(r removals.Resource) bool {
		return r.Type == "AWS::ApplicationAutoScaling::ScalableTarget" && r.Properties["ServiceNamespace"] == "ecs"
	}},
}

// serviceLinkedRoles checks that roles exist which the first deployment of a resource needs.
func serviceLinkedRoles(ctx context.Context, p preflight) (findings []string, err error) {
	needed := slices.DeleteFunc(slices.Clone(linkedRoles), func(role linkedRole) bool {
		needs := func(s removals.Stack) bool {
			for _, r := range resources(s) {
				if role.needs(r) {
					return true
				}
			}
			return false
		}
		return !needs(p.planned) || needs(p.deployed)
	})
	if len(needed) == 0 {
		return nil, nil
	}
	var names []string
	if err := p.read(ctx, &names, "iam", "list-roles", "--path-prefix", "/aws-service-role/", "--query", "Roles[].RoleName"); err != nil {
		return nil, err
	}
	if names == nil {
		return nil, errNoAnswer
	}
	for _, role := range needed {
		if !slices.Contains(names, role.name) {
			findings = append(findings, fmt.Sprintf("the account has no role %s, without which the first deployment of services fails: type aws iam create-service-linked-role --aws-service-name %s", role.name, role.service))
		}
	}
	return findings, nil
}
