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
	"github.com/gatewright/gatewright/shared/runtime/cloud/signin"
)

// precondition is a condition in the account that is checked before anything is created.
type precondition struct {
	// subject is what is checked, as the start of a sentence.
	subject string
	// permission is the permission that the check needs.
	permission string
	// docs is the page of the AWS documentation on which the check is based.
	docs string
	// recheck says that a finding is verified a second time, because AWS shows new resources only after some seconds.
	recheck bool
	// find returns a line for each finding, which says what is wrong and what to do. The error says why AWS could not
	// be read. Findings count even if find also returns an error.
	find func(ctx context.Context, p preflight) (findings []string, err error)
}

// preconditions are checked before the confirmation. They derive their requirements from the planned templates. A check
// sends a request to AWS only if the planned templates need its precondition. Most checks send none if the deployed
// templates already need the same.
var preconditions = []precondition{
	{
		subject: "The CDK's bootstrap stack", permission: "ssm:GetParameters", find: bootstrapFindings,
		docs: "https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html",
	},
	{
		subject: "The account's concurrency in Lambda", permission: "lambda:GetAccountSettings", find: concurrencyFindings,
		docs: "https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html",
	},
	{
		subject: "The certificate of domain names", permission: "acm:DescribeCertificate", recheck: true,
		find: certificateFindings,
		docs: "https://docs.aws.amazon.com/acm/latest/APIReference/API_DescribeCertificate.html",
	},
	{
		subject: "The certificate of services", permission: "ssm:GetParameters", find: serviceCertificateFindings,
		docs: "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/secrets-envvar-ssm-paramstore.html",
	},
	{
		subject: "The service-linked roles", permission: "iam:ListRoles", recheck: true, find: linkedRoleFindings,
		docs: "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create-service-linked-role.html",
	},
	{
		subject: "The role for access logs of API Gateway", permission: "apigateway:GET", find: logRoleFindings,
		docs: "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-apigateway-account.html",
	},
	{
		subject: "Whether CloudFormation creates budgets", permission: "cloudformation:DescribeType",
		find: budgetTypeFindings,
		docs: "https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeType.html",
	},
	{
		subject: "Whether names are in use", permission: "s3:ListBucket, logs:DescribeLogGroups", recheck: true,
		find: namesInUseFindings,
		docs: "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-name.html",
	},
	{
		subject: "The remains of the failed stack", permission: "cloudformation:ListStackResources", find: leftoverFindings,
		docs: "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html",
	},
}

// preflight has the stacks that the checks compare, and the tools that the checks use.
type preflight struct {
	stage, region     string
	deployed, planned removals.Stack
	account           account
	// runAWS runs the AWS command line.
	runAWS signin.Run
	// out receives messages that are not findings.
	out io.Writer
}

// stageFile returns the path of the stage's file.
func (p preflight) stageFile() string { return path.Join("infra/stages", p.stage+".json") }

// preflight checks all preconditions, and refuses the deployment if there are findings. A check that cannot read AWS is
// reported in one line and refuses nothing: an operator who is allowed to deploy need not be allowed to read
// everything.
func (d deployment) preflight(ctx context.Context, deployed, planned removals.Stack) error {
	currentRegion, err := d.region(ctx)
	if err != nil {
		return err
	}
	account, err := d.account(ctx)
	if err != nil {
		return err
	}
	p := preflight{
		stage: d.stage, region: currentRegion, deployed: deployed, planned: planned, account: account,
		runAWS: d.runAWS, out: d.out,
	}
	var lines []string
	for _, c := range preconditions {
		findings, err := c.find(ctx, p)
		if c.recheck && err == nil && len(findings) > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(d.consistencyDelay):
			}
			var refreshed []string
			if refreshed, err = c.find(ctx, p); err == nil {
				findings = refreshed
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			scope, suffix := "", " The deployment goes on."
			if d.checkRegion != "" {
				scope = " in " + d.checkRegion
			}
			if len(findings) > 0 {
				scope, suffix = " to the end"+scope, ""
			}
			_, _ = fmt.Fprintf(d.out, "%s could not be checked%s, which needs %s (%s).%s\n", c.subject, scope, c.permission,
				oneLine(err), suffix)
		}
		lines = append(lines, findings...)
	}
	if len(lines) > 0 {
		return refusal(strings.Join(lines, "\n"))
	}
	return nil
}

// oneLine returns the text of an error with each sequence of spaces and line breaks replaced by one space.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// errEmptyReply is the error for a reply without the requested data.
var errEmptyReply = errors.New("the reply is empty")

// query runs the AWS command line, and decodes the JSON that it prints.
func (p preflight) query(ctx context.Context, into any, args ...string) error {
	text, err := p.runAWS(ctx, append(args, "--output", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("read the reply of aws %s: %w", strings.Join(args[:2], " "), err)
	}
	return nil
}

// hasErrorCode reports whether err is an error of the AWS command line that contains this error code of AWS.
func hasErrorCode(err error, code string) bool {
	return err != nil && strings.Contains(err.Error(), "("+code+")")
}

// resources returns all resources of a stack and of its nested stacks, in the order of their paths.
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

// parameters reads values from Parameter Store. missing has the names that Parameter Store does not have. It does not
// decrypt secrets, and prints nothing.
func (p preflight) parameters(
	ctx context.Context, names ...string,
) (values map[string]string, missing []string, err error) {
	var reply struct {
		Parameters        []struct{ Name, Value string }
		InvalidParameters []string
	}
	if err := p.query(ctx, &reply, append([]string{"ssm", "get-parameters", "--names"}, names...)...); err != nil {
		return nil, nil, err
	}
	values = map[string]string{}
	for _, parameter := range reply.Parameters {
		values[parameter.Name] = parameter.Value
	}
	if len(values)+len(reply.InvalidParameters) < len(names) {
		return nil, nil, errEmptyReply
	}
	return values, reply.InvalidParameters, nil
}

// bootstrapFindings checks that the account has the bootstrap stack of the CDK in this region, in a version that the
// template accepts.
func bootstrapFindings(ctx context.Context, p preflight) ([]string, error) {
	parameter, minimum := p.planned.BootstrapVersion()
	if parameter == "" {
		return nil, nil
	}
	values, missing, err := p.parameters(ctx, parameter)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return []string{fmt.Sprintf("the CDK has no bootstrap stack in %[1]s of this account (Parameter Store has no "+
			"%[2]s): type make bootstrap AWS_REGION=%[1]s", p.region, parameter)}, nil
	}
	version, err := strconv.Atoi(values[parameter])
	if err != nil {
		return nil, fmt.Errorf("the value of %s is no version: %w", parameter, err)
	}
	if version < minimum {
		return []string{fmt.Sprintf("the CDK's bootstrap stack in %[1]s of this account has version %[2]d, and the "+
			"templates need version %[3]d: type make bootstrap AWS_REGION=%[1]s", p.region, version, minimum)}, nil
	}
	return nil, nil
}

// These limits of Lambda are from https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html.
const (
	// minUnreserved is the part of an account's concurrency that cannot be reserved.
	minUnreserved = 100
	// defaultConcurrency is the default quota of an account. A new account has less, and has to request it.
	defaultConcurrency = 1000
)

// accountSettings is the part of Lambda's client that reads the settings of the account.
type accountSettings interface {
	GetAccountSettings(context.Context, *lambda.GetAccountSettingsInput,
		...func(*lambda.Options)) (*lambda.GetAccountSettingsOutput, error)
}

var _ accountSettings = (*lambda.Client)(nil)

// concurrencyFindings checks that the account has enough unreserved concurrency for the planned reservations. If no
// reservation is planned, it checks instead that there is enough for the calls of the release hook. The existing
// reservation of a deployed function counts for that function. A reservation that the deployment reduces does not count
// for other functions, because CloudFormation changes functions in any order.
func concurrencyFindings(ctx context.Context, p preflight) ([]string, error) {
	reserved := func(s removals.Stack) map[string]int {
		out := map[string]int{}
		for address, r := range resources(s) {
			if n, _ := r.Properties["ReservedConcurrentExecutions"].(float64); r.Type == "AWS::Lambda::Function" {
				out[address] = int(n)
			}
		}
		return out
	}
	deployed, additional := reserved(p.deployed), 0
	for address, n := range reserved(p.planned) {
		additional += max(n-deployed[address], 0)
	}
	hookCalls := 0 // number of simultaneous calls by the hook of releases
	if total(reserved(p.planned)) == 0 {
		hookCalls = releaseHookCalls(p)
	}
	if additional == 0 && hookCalls == 0 {
		return nil, nil
	}
	reply, err := p.account.functions.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return nil, err
	}
	if reply.AccountLimit == nil || reply.AccountLimit.UnreservedConcurrentExecutions == nil ||
		reply.AccountLimit.ConcurrentExecutions == 0 {
		return nil, errEmptyReply
	}
	limit, unreserved := int(reply.AccountLimit.ConcurrentExecutions),
		int(*reply.AccountLimit.UnreservedConcurrentExecutions)
	if hookCalls > unreserved {
		return []string{fmt.Sprintf("Lambda runs at most %d calls at once for this account in %s, and a release needs %d, "+
			"because a hook calls each new version before it gets traffic: "+
			`add "canary": false to %s until the account has a higher quota`, limit, p.region, hookCalls, p.stageFile())}, nil
	}
	shortage := additional + minUnreserved - unreserved
	if additional == 0 || shortage <= 0 {
		return nil, nil
	}
	return []string{fmt.Sprintf("Lambda runs at most %d calls at once for this account in %s, of which %d are "+
		"unreserved; functions would reserve %d more, and %d have to stay unreserved: "+
		"type aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 "+
		"--desired-value %d --region %s, or set a lower concurrency in %s (0 reserves nothing)",
		limit, p.region, unreserved, additional, minUnreserved, max(limit+shortage, defaultConcurrency), p.region,
		p.stageFile())}, nil
}

// releaseHookCalls returns how many calls run at the same time because of the hook of releases. There are two for each
// alias that CodeDeploy moves: CodeDeploy calls the hook, and the hook calls the new version. CodeDeploy does not move
// an alias that is being created.
func releaseHookCalls(p preflight) (calls int) {
	for address, r := range resources(p.planned) {
		policy, _ := r.UpdatePolicy["CodeDeployLambdaAliasUpdate"].(map[string]any)
		if policy["BeforeAllowTrafficHook"] != nil && resourceAt(p.deployed, address).Type == r.Type {
			calls += 2
		}
	}
	return calls
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// domainsByCertificate returns the domain names of the APIs in a stack, by the ARNs of their certificates.
func domainsByCertificate(s removals.Stack) map[string][]string {
	out := map[string][]string{}
	for _, r := range resources(s) {
		arn, _ := r.Properties["RegionalCertificateArn"].(string)
		if name, _ := r.Properties["DomainName"].(string); r.Type == "AWS::ApiGateway::DomainName" && arn != "" &&
			name != "" {
			out[arn] = append(out[arn], name)
		}
	}
	return out
}

// certificateFindings checks that each certificate of ACM is issued and covers its domain names. If all planned names
// of a certificate are already deployed with it, the certificate is not checked again, so that an old certificate does
// not prevent a repair.
func certificateFindings(ctx context.Context, p preflight) (findings []string, err error) {
	deployed, planned := domainsByCertificate(p.deployed), domainsByCertificate(p.planned)
	for _, arn := range slices.Sorted(maps.Keys(planned)) {
		if !slices.ContainsFunc(planned[arn], func(name string) bool { return !slices.Contains(deployed[arn], name) }) {
			continue
		}
		advice := fmt.Sprintf("type aws acm request-certificate --validation-method DNS --region %s --domain-name '%s', "+
			"and set certificateArn in %s to its ARN",
			p.region, strings.Join(planned[arn], "' --subject-alternative-names '"), p.stageFile())
		var reply struct {
			Certificate struct {
				Status, DomainName      string
				SubjectAlternativeNames []string
			}
		}
		err := p.query(ctx, &reply, "acm", "describe-certificate", "--certificate-arn", arn, "--region", p.region)
		cert := reply.Certificate
		switch {
		case hasErrorCode(err, "ResourceNotFoundException"):
			findings = append(findings, fmt.Sprintf("ACM has no certificate %s: %s", arn, advice))
			continue
		case err != nil:
			return findings, err
		case cert.Status == "":
			return findings, errEmptyReply
		case cert.Status == "PENDING_VALIDATION":
			findings = append(findings, fmt.Sprintf("the certificate %[1]s is not issued yet: create the DNS records that aws "+
				"acm describe-certificate --certificate-arn %[1]s --region %[2]s --query "+
				"'Certificate.DomainValidationOptions[].ResourceRecord' prints, "+
				"and deploy when aws acm wait certificate-validated --certificate-arn %[1]s --region %[2]s has ended", arn,
				p.region))
			continue
		case cert.Status != "ISSUED":
			findings = append(findings,
				fmt.Sprintf("the certificate %s is %s, and API Gateway takes only one that is ISSUED: %s", arn, cert.Status,
					advice))
			continue
		}
		covered := append(cert.SubjectAlternativeNames, cert.DomainName)
		for _, name := range planned[arn] {
			if !slices.ContainsFunc(covered, func(pattern string) bool { return covers(pattern, name) }) {
				findings = append(findings, fmt.Sprintf("the certificate %s does not cover %s: %s", arn, name, advice))
				break
			}
		}
	}
	return findings, nil
}

// covers reports whether a name of a certificate covers a domain name. A wildcard covers one label.
func covers(pattern, name string) bool {
	_, parent, _ := strings.Cut(name, ".")
	return strings.EqualFold(pattern, name) || strings.EqualFold(pattern, "*."+parent)
}

// serviceCertificateFindings checks that Parameter Store has the certificate of each service: tasks do not start
// without their certificate, and CloudFormation waits for tasks for hours before it rolls back.
func serviceCertificateFindings(ctx context.Context, p preflight) (findings []string, err error) {
	names := p.planned.SecretParameters()
	if len(names) == 0 {
		return nil, nil
	}
	_, missing, err := p.parameters(ctx, names...)
	for _, name := range missing {
		service := strings.TrimSuffix(path.Base(name), "-certificate")
		findings = append(findings, fmt.Sprintf("the service %[1]s has no certificate, without which its tasks do not "+
			"start: keep one by make service-certificate SERVICE=%[1]s STAGE=%[2]s (docs/aws.md)", service, p.stage))
	}
	return findings, err
}

// linkedRole is a service-linked role that has to exist before a resource is created.
type linkedRole struct {
	name, service string
	// neededBy reports whether a resource needs the role.
	neededBy func(r removals.Resource) bool
}

// linkedRoles are the roles that AWS creates at the first use of a service in an account. The service assumes the new
// role immediately, which fails: IAM shows a new role to other services only after some seconds. The other services in
// the templates wait for their roles or need none: load balancers, domain names of API Gateway, tables, web ACLs.
var linkedRoles = []linkedRole{
	{name: "AWSServiceRoleForECS", service: "ecs.amazonaws.com", neededBy: func(r removals.Resource) bool {
		return r.Type == "AWS::ECS::Cluster" || r.Type == "AWS::ECS::Service"
	}},
	{
		name: "AWSServiceRoleForApplicationAutoScaling_ECSService", service: "ecs.application-autoscaling.amazonaws.com",
		neededBy: func(r removals.Resource) bool {
			return r.Type == "AWS::ApplicationAutoScaling::ScalableTarget" && r.Properties["ServiceNamespace"] == "ecs"
		},
	},
}

// linkedRoleFindings checks that the account has the service-linked roles that new resources need.
func linkedRoleFindings(ctx context.Context, p preflight) (findings []string, err error) {
	required := slices.DeleteFunc(slices.Clone(linkedRoles), func(role linkedRole) bool {
		neededIn := func(s removals.Stack) bool {
			for _, r := range resources(s) {
				if role.neededBy(r) {
					return true
				}
			}
			return false
		}
		return !neededIn(p.planned) || neededIn(p.deployed)
	})
	if len(required) == 0 {
		return nil, nil
	}
	var names []string
	if err := p.query(ctx, &names, "iam", "list-roles", "--path-prefix", "/aws-service-role/", "--query",
		"Roles[].RoleName"); err != nil {
		return nil, err
	}
	if names == nil {
		return nil, errEmptyReply
	}
	for _, role := range required {
		if !slices.Contains(names, role.name) {
			findings = append(findings, fmt.Sprintf("the account has no role %s, without which the first deployment of "+
				"services fails: type aws iam create-service-linked-role --aws-service-name %s", role.name, role.service))
		}
	}
	return findings, nil
}
