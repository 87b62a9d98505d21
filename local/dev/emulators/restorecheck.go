package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/infra/removals"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/store"
)

// countUnchained returns the number of audit records in a table that are not chained yet.
func (r *restoreScenario) countUnchained(ctx context.Context, table string) (n int, err error) {
	err = store.EachItem(ctx, r.tables, table, nil, func(item store.Item) error {
		if audit.IsPending(store.KeyOf(item)) {
			n++
		}
		return nil
	})
	return n, err
}

// runCommand runs the restore command as an operator does.
func (r *restoreScenario) runCommand(ctx context.Context, args ...string) (out, errOut string, err error) {
	var stdout, stderr bytes.Buffer
	//nolint:gosec // G204: the command that this program has built
	cmd := exec.CommandContext(ctx, r.command, append([]string{"-stage", stage, "-poll", "200ms"}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = r.env(), &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// killAtLine runs the restore command, and kills it when it prints a line that begins with the given text.
func (r *restoreScenario) killAtLine(ctx context.Context, text string, args ...string) error {
	//nolint:gosec // G204: the command that this program has built
	cmd := exec.CommandContext(ctx, r.command, append([]string{"-stage", stage, "-poll", "200ms"}, args...)...)
	cmd.Env = r.env()
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	matched := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if matched = strings.HasPrefix(lines.Text(), text); matched {
			break
		}
	}
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); !matched || err == nil {
		return fmt.Errorf("the restore prints the line %q: %t, and ends with %w, want the line and a killed process", text,
			matched, err)
	}
	return nil
}

// expectRefusal runs the restore command, which must fail. The last line of its standard error must contain the given
// text.
func (r *restoreScenario) expectRefusal(ctx context.Context, text string, args ...string) error {
	_, errOut, err := r.runCommand(ctx, args...)
	lines := strings.Split(strings.TrimSpace(errOut), "\n")
	if last := lines[len(lines)-1]; err == nil || !strings.HasPrefix(last, "restore-aws: ") ||
		!strings.Contains(last, text) {
		return fmt.Errorf("%v: error %w, output %q, want a line with %q", args, err, errOut, text)
	}
	return nil
}

// state returns a summary of the parts of the installation that a refused command must not change.
func (r *restoreScenario) state(ctx context.Context) (string, error) {
	tables, err := r.tables.ListTables(ctx, &dynamodb.ListTablesInput{})
	if err != nil {
		return "", err
	}
	f, err := r.functions.GetFunction(ctx,
		&lambda.GetFunctionInput{FunctionName: aws.String("gatewright-" + stage + "-accounts")})
	if err != nil {
		return "", err
	}
	d, err := r.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &r.out.Table})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(tables.TableNames, f.Concurrency != nil, len(f.Tags), aws.ToBool(d.Table.DeletionProtectionEnabled)),
		nil
}

// checkRefusals runs invalid commands and a dry run. Each invalid command must fail with its own error, and none may
// change the installation.
func (r *restoreScenario) checkRefusals(ctx context.Context) error {
	before, err := r.state(ctx)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		text string
		args []string
	}{
		{"say how it shall be restored", []string{"-yes"}},
		{"is yet to come", []string{"-yes", "-at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}},
		{"can be restored as it was between", []string{"-yes", "-at", "2020-02-02T02:02:02Z"}},
		{"over which nothing is restored", []string{"-yes", "-backup", r.backup, "-as", r.out.Table}},
		{"DynamoDB has no backup", []string{"-yes", "-backup", strings.Replace(r.backup, "/backup/", "/backup/0", 1)}},
		{"is restored in its own region", []string{"-yes", "-backup", strings.Replace(r.backup, region, "eu-west-1", 1)}},
		{"there is no stack gatewright-nobody", []string{"-stage", "nobody", "-yes", "-backup", r.backup}},
		{"not agreed", []string{"-backup", r.backup}},
	} {
		if err := r.expectRefusal(ctx, c.text, c.args...); err != nil {
			return err
		}
	}
	if _, errOut, err := r.runCommand(ctx, "-dry-run", "-backup", r.backup); err != nil ||
		!strings.Contains(errOut, "nothing was changed") {
		return fmt.Errorf("a dry run: error %w, output %q, want \"nothing was changed\"", err, errOut)
	}
	after, err := r.state(ctx)
	if err == nil && after != before {
		err = fmt.Errorf("state after the refusals = %s, want %s", after, before)
	}
	return err
}

// corrupt damages the data after the backup, as a faulty release could.
func (r *restoreScenario) corrupt(ctx context.Context) error {
	var revoked struct{ ID string }
	if err := r.invoke(ctx, fmt.Sprintf(`{"do":"revoke-key","name":"demo","id":%q}`, r.revokedKeyID),
		&revoked); err != nil {
		return err
	}
	if err := r.mustCallAPI(ctx, http.MethodDelete, bucketPath+"/hello-consumers/consumers/gone", "", nil); err != nil {
		return err
	}
	if err := r.mustCallAPI(ctx, http.MethodDelete, "/v1/deployments/"+r.deploymentName, "", nil); err != nil {
		return err
	}
	bucket := blob.New(r.awsConfig(), blob.Options{Name: r.out.Bucket, Endpoint: r.endpoint})
	// The cleanup would wait until no gateway serves the deployment. So delete the objects here.
	for _, prefix := range []string{blob.SourceKey(r.deploymentName + "/"), blob.ArtifactKey(r.deploymentName + "/")} {
		for o, err := range bucket.List(ctx, prefix) {
			if err == nil {
				err = bucket.Delete(ctx, o.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	if n, err := countObjects(ctx, bucket, r.deploymentName); err != nil || n > 0 {
		return fmt.Errorf("objects of the deleted deployment = %d, error %w, want none", n, err)
	}
	return nil
}

var tableStreamPattern = regexp.MustCompile(`"tableStream": "(\S+)"`)

// restore runs the restore command. It kills the command twice. The third run stops with the question what to do with
// keys that were revoked after the backup. The fourth run has an option with the answer.
func (r *restoreScenario) restore(ctx context.Context) error {
	// Kill the command while functions are stopped, and when the table is restored. It is not killed
	// in between, because MiniStack, unlike DynamoDB, does not record from what a table is restored.
	for _, line := range []string{"- what was changed since then", "its root key opens"} {
		if err := r.killAtLine(ctx, line, "-yes", "-backup", r.backup); err != nil {
			return err
		}
	}
	out, errOut, err := r.runCommand(ctx, "-yes", "-backup", r.backup)
	if err == nil || !strings.Contains(errOut, "run this again with REVIVED=revoke") {
		return fmt.Errorf("a restore without REVIVED: error %w, output %q, want a question about revoked keys", err, errOut)
	}
	if !strings.Contains(out, r.revokedKeyID) || !strings.Contains(out, `of the consumer "gone"`) ||
		strings.Contains(out, `"kept"`) || tableStreamPattern.MatchString(out) {
		return fmt.Errorf("a restore without REVIVED prints %q, want the revoked key, the deleted consumer, not the kept "+
			"consumer, and no tableStream", out)
	}
	for _, secret := range []string{r.key, r.revokedKey, r.keptKey, r.deletedKey} {
		if strings.Contains(out+errOut, secret) {
			return errors.New("the restore prints the text of a key, want no secret")
		}
	}
	if out, errOut, err = r.runCommand(ctx, "-yes", "-backup", r.backup, "-revived", "revoke"); err != nil {
		return fmt.Errorf("%w: %s", err, errOut)
	}
	match := tableStreamPattern.FindStringSubmatch(out)
	if match == nil {
		return fmt.Errorf("output of the restore = %q, want a tableStream", out)
	}
	r.newStream = match[1]
	// MiniStack stores a reserved concurrency of 0, but calls the functions nevertheless. So check the stored value.
	for name, wantStopped := range map[string]bool{
		"accounts": true, "operations": true, "builder": true,
		"gateway": false,
	} {
		f, err := r.functions.GetFunction(ctx,
			&lambda.GetFunctionInput{FunctionName: aws.String("gatewright-" + stage + "-" + name)})
		if err != nil {
			return err
		}
		if isStopped := f.Concurrency != nil &&
			aws.ToInt32(f.Concurrency.ReservedConcurrentExecutions) == 0; isStopped != wantStopped {
			return fmt.Errorf("during the restore the function %s is stopped: %t, want %t", name, isStopped, wantStopped)
		}
	}
	return nil
}

// loseTable deletes the original table, and deploys the installation with the restored table. It then runs the restore
// command again, which finishes the restore.
func (r *restoreScenario) loseTable(ctx context.Context) error {
	original := r.out.Table
	d, err := r.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &original})
	if err != nil || !aws.ToBool(d.Table.DeletionProtectionEnabled) {
		return fmt.Errorf("the original table has no deletion protection (%w)", err)
	}
	// Do not run the restore command between here and the deployment: it would change the original table.
	if _, err := r.tables.UpdateTable(ctx, &dynamodb.UpdateTableInput{
		TableName:                 &original,
		DeletionProtectionEnabled: aws.Bool(false),
	}); err != nil {
		return err
	}
	if _, err := r.tables.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &original}); err != nil {
		return err
	}
	r.tableStream = r.newStream
	if err := r.deploy(ctx); err != nil {
		return err
	}
	if r.out.Table == original || !strings.Contains(r.newStream, "/"+r.out.Table+"/") {
		return fmt.Errorf("table after the deployment = %s, want the restored table of %s", r.out.Table, r.newStream)
	}
	if err := r.checkRemovalGuard(ctx); err != nil {
		return err
	}
	var out, errOut string
	for range 2 { // the second run must change nothing
		out, errOut, err = r.runCommand(ctx, "-yes", "-backup", r.backup)
		if err != nil || !strings.Contains(errOut, "the restore is done") ||
			!strings.Contains(errOut, "the audit log of demo is whole") {
			return fmt.Errorf("the restore command after the deployment: error %w, want a finished restore: %s%s", err, out,
				errOut)
		}
		fmt.Fprint(os.Stderr, errOut)
	}
	return nil
}

// checkRemovalGuard checks that make deploy detects a deployment that would stop using the restored table.
func (r *restoreScenario) checkRemovalGuard(ctx context.Context) error {
	deployed, planned, err := r.stacks(ctx)
	if err != nil {
		return err
	}
	delete(planned.Templates[""].Outputs, "TableStream")
	if all := removals.Diff(deployed, planned); len(all) != 1 || all[0].Name != "tableStream" {
		return fmt.Errorf("removals of a deployment without the restored table = %v, want tableStream", all)
	}
	return nil
}

// check verifies that the installation has the test data of the backup, and works.
func (r *restoreScenario) check(ctx context.Context) error {
	if err := r.mustCallAPI(ctx, http.MethodGet, "/v1/who-am-i", "", nil); err != nil {
		return err
	}
	if status, err := r.callAPI(ctx, r.revokedKey, http.MethodGet, "/v1/who-am-i", "", nil); err != nil ||
		status != http.StatusUnauthorized {
		return fmt.Errorf("GET /v1/who-am-i with a revoked key: status = %d, error %w, want the status 401", status, err)
	}
	if err := r.checkKeys(ctx, map[string]bool{r.keptKey: true, r.deletedKey: false, "": false}); err != nil {
		return err
	}
	// The audit record that was not chained at the time of the backup, and
	// new records, must be chained through the stream of the restored table.
	if err := r.mustCallAPI(ctx, http.MethodPost, bucketPath, `{"name":"after"}`, nil); err != nil {
		return err
	}
	if err := waitUntil(ctx, "all audit records are chained", func() (bool, error) {
		n, err := r.countUnchained(ctx, r.out.Table)
		return n == 0, err
	}); err != nil {
		return err
	}
	// Durable operations must start through the stream: redeploy,
	// which builds the deployment again from the restored source.
	var redeployed struct{ DeploymentID string }
	if err := r.mustCallAPI(ctx, http.MethodPost, "/v1/deployments/"+r.deploymentName+"/deploy", "",
		&redeployed); err != nil {
		return err
	}
	if err := r.waitBuilt(ctx, redeployed.DeploymentID); err != nil {
		return err
	}
	f, err := r.functions.GetFunction(ctx,
		&lambda.GetFunctionInput{FunctionName: aws.String("gatewright-" + stage + "-accounts")})
	if err != nil || f.Concurrency != nil && f.Concurrency.ReservedConcurrentExecutions != nil ||
		f.Tags["gatewright:closed-for-restore"] != "" {
		return fmt.Errorf("the function accounts is still stopped or has the tag of a restore (%w)", err)
	}
	return r.checkTableSettings(ctx, r.out.Table)
}

// checkTableSettings checks that a restored table has the settings of the stack's table: the stream, the time to live,
// point-in-time recovery, deletion protection and the tag stage.
func (r *restoreScenario) checkTableSettings(ctx context.Context, table string) error {
	d, err := r.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		return err
	}
	ttl, err := r.tables.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return err
	}
	backups, err := r.tables.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &table})
	if err != nil {
		return err
	}
	tags, err := r.tables.ListTagsOfResource(ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: d.Table.TableArn})
	if err != nil {
		return err
	}
	stream := d.Table.StreamSpecification
	switch {
	case stream == nil || !aws.ToBool(stream.StreamEnabled) || stream.StreamViewType != store.Schema().Stream:
		return errors.New("the restored table does not have the stream of the schema")
	case ttl.TimeToLiveDescription == nil || ttl.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusEnabled ||
		aws.ToString(ttl.TimeToLiveDescription.AttributeName) != store.TTLAttribute:
		return errors.New("the restored table has no time to live")
	case backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusEnabled:
		return errors.New("the restored table has no point-in-time recovery")
	case !aws.ToBool(d.Table.DeletionProtectionEnabled):
		return errors.New("the restored table has no deletion protection")
	case !slices.ContainsFunc(tags.Tags, func(t types.Tag) bool {
		return aws.ToString(t.Key) == "stage" && aws.ToString(t.Value) == stage
	}):
		return errors.New("the restored table does not have the tag stage")
	}
	return nil
}

// restoreLatest begins a second restore, of the latest point in time, and cancels it.
func (r *restoreScenario) restoreLatest(ctx context.Context) error {
	if err := r.expectRefusal(ctx, "AT=latest is another moment each time", "-yes", "-at", "latest"); err != nil {
		return err
	}
	const second = "gatewright-second"
	for range 2 { // the second run continues the first
		if out, errOut, err := r.runCommand(ctx, "-yes", "-at", "latest", "-as", second); err != nil ||
			!tableStreamPattern.MatchString(out) {
			return fmt.Errorf("a restore of the latest point in time: error %w, want a tableStream: %s%s", err, out, errOut)
		}
	}
	if err := r.checkTableSettings(ctx, second); err != nil {
		return err
	}
	// A restore must not overwrite an unrelated table.
	if err := store.CreateTable(ctx, r.tables, "somebodys"); err != nil {
		return err
	}
	if err := r.expectRefusal(ctx, "it was not restored for this", "-yes", "-at", "latest", "-as",
		"somebodys"); err != nil {
		return err
	}
	if _, errOut, err := r.runCommand(ctx, "-lift"); err != nil {
		return fmt.Errorf("cancel the restore with -lift: %w: %s", err, errOut)
	}
	return r.mustCallAPI(ctx, http.MethodGet, "/v1/who-am-i", "", nil)
}
