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
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/store"
)

// unchained counts the audit records of a table that wait to be chained.
func (r *restoring) unchained(ctx context.Context, table string) (n int, err error) {
	err = store.EachItem(ctx, r.tables, table, nil, func(item store.Item) error {
		if audit.IsNew(store.KeyOf(item)) {
			n++
		}
		return nil
	})
	return n, err
}

// operator runs the command as an operator does.
func (r *restoring) operator(ctx context.Context, words ...string) (out, said string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.command, append([]string{"-stage", stage, "-poll", "200ms"}, words...)...) //nolint:gosec // G204: the command that this program has built
	cmd.Env, cmd.Stdout, cmd.Stderr = r.env(), &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// killedAt runs the command, and kills it when it has said something.
func (r *restoring) killedAt(ctx context.Context, text string, words ...string) error {
	cmd := exec.CommandContext(ctx, r.command, append([]string{"-stage", stage, "-poll", "200ms"}, words...)...) //nolint:gosec // G204: the command that this program has built
	cmd.Env = r.env()
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	found := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if found = strings.HasPrefix(lines.Text(), text); found {
			break
		}
	}
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); !found || err == nil {
		return fmt.Errorf("a restore was not killed when it said %q (%w)", text, err)
	}
	return nil
}

// refused asks for something that has to be refused with one line.
func (r *restoring) refused(ctx context.Context, text string, words ...string) error {
	_, said, err := r.operator(ctx, words...)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if last := lines[len(lines)-1]; err == nil || !strings.HasPrefix(last, "restore-aws: ") || !strings.Contains(last, text) {
		return fmt.Errorf("%v is answered with %w and %q, want a line with %q", words, err, said, text)
	}
	return nil
}

// state is what a refusal must not change.
func (r *restoring) state(ctx context.Context) (string, error) {
	tables, err := r.tables.ListTables(ctx, &dynamodb.ListTablesInput{})
	if err != nil {
		return "", err
	}
	f, err := r.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: aws.String("gatewright-" + stage + "-accounts")})
	if err != nil {
		return "", err
	}
	d, err := r.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &r.out.Table})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(tables.TableNames, f.Concurrency != nil, len(f.Tags), aws.ToBool(d.Table.DeletionProtectionEnabled)), nil
}

// refusals are lines, and change nothing.
func (r *restoring) refusals(ctx context.Context) error {
	before, err := r.state(ctx)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		text  string
		words []string
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
		if err := r.refused(ctx, c.text, c.words...); err != nil {
			return err
		}
	}
	if _, said, err := r.operator(ctx, "-dry-run", "-backup", r.backup); err != nil || !strings.Contains(said, "nothing was changed") {
		return fmt.Errorf("a dry run is answered with %w and %q", err, said)
	}
	after, err := r.state(ctx)
	if err == nil && after != before {
		err = fmt.Errorf("before the refusals it was %s, after them %s", before, after)
	}
	return err
}

// spoil does what a bad release, or a bad day, does after the moment.
func (r *restoring) spoil(ctx context.Context) error {
	var revoked struct{ ID string }
	if err := r.invoke(ctx, fmt.Sprintf(`{"do":"revoke-key","name":"demo","id":%q}`, r.leaverID), &revoked); err != nil {
		return err
	}
	if err := r.must(ctx, http.MethodDelete, bucketPath+"/hello-consumers/consumers/gone", "", nil); err != nil {
		return err
	}
	if err := r.must(ctx, http.MethodDelete, "/v1/deployments/"+r.name, "", nil); err != nil {
		return err
	}
	bucket := blob.New(r.sdk(), blob.Options{Name: r.out.Bucket, Endpoint: r.endpoint})
	// Its cleaning waits until no gateway serves it any more: this is what it does then.
	for _, prefix := range []string{blob.SourceKey(r.name + "/"), blob.ArtifactKey(r.name + "/")} {
		for o, err := range bucket.List(ctx, prefix) {
			if err == nil {
				err = bucket.Delete(ctx, o.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	if n, err := objects(ctx, bucket, r.name); err != nil || n > 0 {
		return fmt.Errorf("of the deployment %d objects are left (%w)", n, err)
	}
	return nil
}

var tableStream = regexp.MustCompile(`"tableStream": "(\S+)"`)

// restore runs the command: killed twice on the way, until it asks about what had ended, and as it is told to then.
func (r *restoring) restore(ctx context.Context) error {
	// While functions are stopped, and when the table is restored: in between MiniStack forgets of what it restores one, as DynamoDB does not.
	for _, at := range []string{"- what was changed since then", "its root key opens"} {
		if err := r.killedAt(ctx, at, "-yes", "-backup", r.backup); err != nil {
			return err
		}
	}
	out, said, err := r.operator(ctx, "-yes", "-backup", r.backup)
	if err == nil || !strings.Contains(said, "run this again with REVIVED=revoke") {
		return fmt.Errorf("before anybody says what becomes of revoked keys, it answers %w and %q", err, said)
	}
	if !strings.Contains(out, r.leaverID) || !strings.Contains(out, `of the consumer "gone"`) || strings.Contains(out, `"kept"`) || tableStream.MatchString(out) {
		return fmt.Errorf("of what had ended it tells %q", out)
	}
	for _, secret := range []string{r.key, r.leaver, r.kept, r.gone} {
		if strings.Contains(out+said, secret) {
			return errors.New("it prints a key")
		}
	}
	if out, said, err = r.operator(ctx, "-yes", "-backup", r.backup, "-revived", "revoke"); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	found := tableStream.FindStringSubmatch(out)
	if found == nil {
		return fmt.Errorf("it says no stream: %q", out)
	}
	r.adopted = found[1]
	// MiniStack keeps a reserved concurrency, and calls functions beyond it all the same.
	for name, closed := range map[string]bool{"accounts": true, "operations": true, "builder": true, "gateway": false} {
		f, err := r.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: aws.String("gatewright-" + stage + "-" + name)})
		if err != nil {
			return err
		}
		if is := f.Concurrency != nil && aws.ToInt32(f.Concurrency.ReservedConcurrentExecutions) == 0; is != closed {
			return fmt.Errorf("while it is restored the function %s is stopped: %t", name, is)
		}
	}
	return nil
}

// lose deletes the table of before, and deploys with the restored one.
func (r *restoring) lose(ctx context.Context) error {
	lost := r.out.Table
	d, err := r.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &lost})
	if err != nil || !aws.ToBool(d.Table.DeletionProtectionEnabled) {
		return fmt.Errorf("the table of before is not protected (%w)", err)
	}
	// Deployed too soon the rest would be done on the table of before.
	if _, err := r.tables.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &lost, DeletionProtectionEnabled: aws.Bool(false)}); err != nil {
		return err
	}
	if _, err := r.tables.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &lost}); err != nil {
		return err
	}
	r.tableStream = r.adopted
	if err := r.deploy(ctx); err != nil {
		return err
	}
	if r.out.Table == lost || !strings.Contains(r.adopted, "/"+r.out.Table+"/") {
		return fmt.Errorf("after the deployment the table is %s", r.out.Table)
	}
	if err := r.noticesLeaving(ctx); err != nil {
		return err
	}
	var out, said string
	for range 2 { // a second time does nothing more
		out, said, err = r.operator(ctx, "-yes", "-backup", r.backup)
		if err != nil || !strings.Contains(said, "the restore is done") || !strings.Contains(said, "the audit log of demo is whole") {
			return fmt.Errorf("after the deployment it answers %w: %s%s", err, out, said)
		}
		fmt.Fprint(os.Stderr, said)
	}
	return nil
}

// noticesLeaving has make deploy's guard see a deployment that forgets the restored table.
func (r *restoring) noticesLeaving(ctx context.Context) error {
	deployed, planned, err := r.stacks(ctx)
	if err != nil {
		return err
	}
	delete(planned.Templates[""].Outputs, "TableStream")
	if all := removals.Of(deployed, planned); len(all) != 1 || all[0].Name != "tableStream" {
		return fmt.Errorf("a deployment without the restored table would remove %v", all)
	}
	return nil
}

// check looks for everything of the moment, and that it goes on.
func (r *restoring) check(ctx context.Context) error {
	if err := r.must(ctx, http.MethodGet, "/v1/who-am-i", "", nil); err != nil {
		return err
	}
	if status, err := r.ask(ctx, r.leaver, http.MethodGet, "/v1/who-am-i", "", nil); err != nil || status != http.StatusUnauthorized {
		return fmt.Errorf("a revoked account key is answered with %d (%w)", status, err)
	}
	if err := r.answers(ctx, map[string]bool{r.kept: true, r.gone: false, "": false}); err != nil {
		return err
	}
	// Who was chained by nobody at the moment is, and so is what comes now, by the restored table's stream.
	if err := r.must(ctx, http.MethodPost, bucketPath, `{"name":"after"}`, nil); err != nil {
		return err
	}
	if err := until(ctx, "all audit records are chained", func() (bool, error) {
		n, err := r.unchained(ctx, r.out.Table)
		return n == 0, err
	}); err != nil {
		return err
	}
	// A durable operation begins by the stream: the deployment is built again from the source that came back.
	var again struct{ DeploymentID string }
	if err := r.must(ctx, http.MethodPost, "/v1/deployments/"+r.name+"/deploy", "", &again); err != nil {
		return err
	}
	if err := r.isBuilt(ctx, again.DeploymentID); err != nil {
		return err
	}
	f, err := r.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: aws.String("gatewright-" + stage + "-accounts")})
	if err != nil || f.Concurrency != nil && f.Concurrency.ReservedConcurrentExecutions != nil || f.Tags["gatewright:closed-for-restore"] != "" {
		return fmt.Errorf("a function is still closed (%w)", err)
	}
	return r.settled(ctx, r.out.Table)
}

// settled compares a restored table's settings with those of the stack's own.
func (r *restoring) settled(ctx context.Context, table string) error {
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
		return errors.New("it has no stream")
	case ttl.TimeToLiveDescription == nil || ttl.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusEnabled || aws.ToString(ttl.TimeToLiveDescription.AttributeName) != store.TTLAttribute:
		return errors.New("nothing expires in it")
	case backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusEnabled:
		return errors.New("it has no point-in-time recovery")
	case !aws.ToBool(d.Table.DeletionProtectionEnabled):
		return errors.New("it is not protected")
	case !slices.ContainsFunc(tags.Tags, func(t types.Tag) bool { return aws.ToString(t.Key) == "stage" && aws.ToString(t.Value) == stage }):
		return errors.New("it has no tag of its stage")
	}
	return nil
}

// latest restores of a point in time, a second time after the first, and gives that up.
func (r *restoring) latest(ctx context.Context) error {
	if err := r.refused(ctx, "AT=latest is another moment each time", "-yes", "-at", "latest"); err != nil {
		return err
	}
	const second = "gatewright-second"
	for range 2 { // the second time goes on
		if out, said, err := r.operator(ctx, "-yes", "-at", "latest", "-as", second); err != nil || !tableStream.MatchString(out) {
			return fmt.Errorf("a restore of the latest moment answers %w: %s%s", err, out, said)
		}
	}
	if err := r.settled(ctx, second); err != nil {
		return err
	}
	// A table of somebody else's is none to restore over.
	if err := store.CreateTable(ctx, r.tables, "somebodys"); err != nil {
		return err
	}
	if err := r.refused(ctx, "it was not restored for this", "-yes", "-at", "latest", "-as", "somebodys"); err != nil {
		return err
	}
	if _, said, err := r.operator(ctx, "-lift"); err != nil {
		return fmt.Errorf("to give it up is answered with %w: %s", err, said)
	}
	return r.must(ctx, http.MethodGet, "/v1/who-am-i", "", nil)
}
