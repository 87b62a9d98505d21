package deployments_test

import (
	"cmp"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/format/environment"
)

const (
	// mainBranchBody is the body of a request to upload the sources of main.
	mainBranchBody = `{"accountName":"acme","projectName":"shop","branchName":"main"}`
	// issuedUploadURL is the beginning of the upload address in responses.
	issuedUploadURL = `"uploadUrl":"https://uploads.example.test/uploads/`
)

func TestUploadResponses(t *testing.T) {
	fx := newFixture(t)
	shopOnlyKey, previewsKey := fx.createLimitedKey([]string{"shop"}), fx.createLimitedKey(nil, environment.Preview)
	const (
		invalidName  = "neither begin nor end with -"
		missingField = "expected required property"
	)
	source := func(name, key, body string, status int, want string) functionstest.Case {
		return functionstest.Case{name, key, "POST", sources, body, status, want}
	}
	fx.Run(t, []functionstest.Case{
		source("branch", fx.fullKey, mainBranchBody, 200, issuedUploadURL),
		source("branch with a slash", fx.fullKey, `{"accountName":"acme","projectName":"shop","branchName":"feature/x"}`, 200,
			issuedUploadURL),
		source("branch of 255 bytes", fx.fullKey,
			`{"accountName":"acme","projectName":"shop","branchName":"`+strings.Repeat("b", 255)+`"}`, 200, issuedUploadURL),
		{"path with a slash at the end", fx.fullKey, "POST", sources + "/", mainBranchBody, 200, issuedUploadURL},
		source("unknown fields", fx.fullKey,
			`{"accountName":"acme","projectName":"shop","branchName":"main","uploadUrl":"mine","region":1}`, 200,
			issuedUploadURL),
		source("project of a limited key", shopOnlyKey, mainBranchBody, 200, issuedUploadURL),
		source("environment type of a limited key", previewsKey,
			`{"accountName":"acme","projectName":"shop","branchName":"feature/x"}`, 200, issuedUploadURL),
		source("no body", fx.fullKey, "", 400, "body"),
		source("a list", fx.fullKey, `[]`, 400, "expected object"),
		source("empty object", fx.fullKey, `{}`, 400, "and 2 more"),
		source("no branch", fx.fullKey, `{"accountName":"acme","projectName":"shop"}`, 400, missingField+" branchName"),
		source("empty branch", fx.fullKey, `{"accountName":"acme","projectName":"shop","branchName":""}`, 400,
			"body.branchName"),
		source("branch of 256 bytes", fx.fullKey,
			`{"accountName":"acme","projectName":"shop","branchName":"`+strings.Repeat("b", 256)+`"}`, 400, "body.branchName"),
		source("branch of 256 bytes in 128 characters", fx.fullKey,
			`{"accountName":"acme","projectName":"shop","branchName":"`+strings.Repeat("ä", 128)+`"}`, 400, "body.branchName"),
		source("branch with a tab", fx.fullKey, `{"accountName":"acme","projectName":"shop","branchName":"a\tb"}`, 400,
			"body.branchName"),
		source("number as branch", fx.fullKey, `{"accountName":"acme","projectName":"shop","branchName":17}`, 400,
			"body.branchName"),
		source("null as branch", fx.fullKey, `{"accountName":"acme","projectName":"shop","branchName":null}`, 400,
			"body.branchName"),
		source("list as project", fx.fullKey, `{"accountName":"acme","projectName":["shop"],"branchName":"main"}`, 400,
			"body.projectName"),
		source("project with a capital letter", fx.fullKey, `{"accountName":"acme","projectName":"Shop","branchName":"main"}`,
			400, invalidName),
		source("empty project", fx.fullKey, `{"accountName":"acme","projectName":"","branchName":"main"}`, 400, invalidName),
		source("project of 64 bytes", fx.fullKey,
			`{"accountName":"acme","projectName":"`+strings.Repeat("p", 64)+`","branchName":"main"}`, 400, invalidName),
		source("another account", fx.fullKey, `{"accountName":"evil","projectName":"shop","branchName":"main"}`, 404,
			"account"),
		source("project hidden from the key", shopOnlyKey, `{"accountName":"acme","projectName":"blog","branchName":"main"}`,
			404, "project"),
		source("environment type hidden from the key", previewsKey, mainBranchBody, 404, "project"),
		source("key without projects", fx.createLimitedKey([]string{}, []environment.Kind{}...), mainBranchBody, 404,
			"project"),
		source("key without the scope", fx.createReaderKey(), mainBranchBody, 403, "deployments:write"),
		source("no key", "", mainBranchBody, 401, "Bearer"),
	})
}

// TestEnvironmentUploadResponses checks requests for an upload address that name an environment. branchName is the
// earlier name of that field.
func TestEnvironmentUploadResponses(t *testing.T) {
	fx := newFixture(t)
	source := func(name, key, body string, status int, want string) functionstest.Case {
		return functionstest.Case{name, key, "POST", sourceURLPath, body, status, want}
	}
	fx.Run(t, []functionstest.Case{
		source("environment", fx.fullKey,
			`{"accountName":"acme","projectName":"shop","environment":"main","repositoryUrl":"","sha":""}`, 200,
			issuedUploadURL),
		source("branch name as environment", fx.fullKey,
			`{"accountName":"acme","projectName":"shop","branchName":"main","sha":"9b6f8a2"}`, 200, issuedUploadURL),
		source("no environment", fx.fullKey, `{"accountName":"acme","projectName":"shop"}`, 400, "body.environment"),
		source("empty environment", fx.fullKey, `{"accountName":"acme","projectName":"shop","environment":""}`, 400,
			"body.environment"),
		source("environment with a tab", fx.fullKey, `{"accountName":"acme","projectName":"shop","environment":"a\tb"}`, 400,
			"body.environment"),
		source("environment and branch", fx.createLimitedKey(nil, environment.Preview),
			`{"accountName":"acme","projectName":"shop","environment":"feature/x","branchName":"main"}`, 200, issuedUploadURL),
		source("branch name with a tab", fx.fullKey, `{"accountName":"acme","projectName":"shop","branchName":"a\tb"}`, 400,
			"body.branchName"),
		source("number as commit", fx.fullKey, `{"accountName":"acme","projectName":"shop","environment":"main","sha":1}`,
			400, "body.sha"),
		source("commit of 65 bytes", fx.fullKey,
			`{"accountName":"acme","projectName":"shop","environment":"main","sha":"`+strings.Repeat("a", 65)+`"}`, 400,
			"body.sha"),
		source("another account", fx.fullKey, `{"accountName":"evil","projectName":"shop","environment":"main"}`, 404,
			"account"),
		source("key without the scope", fx.createReaderKey(),
			`{"accountName":"acme","projectName":"shop","environment":"main"}`, 403, "deployments:write"),
	})
}

// TestProjectUploadResponses checks the earlier form of the request. Its path names the project, and it deploys the
// branch main.
func TestProjectUploadResponses(t *testing.T) {
	fx := newFixture(t)
	fx.Run(t, []functionstest.Case{
		{"project", fx.fullKey, "POST", shopPath + "/sources", "", 200, issuedUploadURL},
		{"ignored body", fx.fullKey, "POST", shopPath + "/sources", `{"branchName":`, 200, issuedUploadURL},
		{"path with a slash at the end", fx.fullKey, "POST", shopPath + "/sources/", "", 200, issuedUploadURL},
		{"encoded name", fx.fullKey, "POST", "/v1/accounts/acme/projects/sh%6Fp/sources", "", 200, issuedUploadURL},
		{"invalid name", fx.fullKey, "POST", "/v1/accounts/acme/projects/sh%2Fop/sources", "", 400, "path.projectName"},
		{
			"main hidden from the key", fx.createLimitedKey(nil, environment.Preview), "POST", shopPath + "/sources", "", 404,
			"project",
		},
		{"another account", fx.fullKey, "POST", "/v1/accounts/evil/projects/shop/sources", "", 404, "account"},
		{"key without the scope", fx.createReaderKey(), "POST", shopPath + "/sources", "", 403, "deployments:write"},
	})
}

// TestStatusIDIsLastSegmentOfUploadURL checks that the last segment of the upload URL is the statusId. Clients of POST
// /v1/deployments/sources can get the id only from there (contract 3.2).
func TestStatusIDIsLastSegmentOfUploadURL(t *testing.T) {
	fx := newFixture(t)
	id, address := fx.issueUpload("main")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if !u.IsAbs() || path.Base(u.Path) != id || len(id) != len("00000000-0000-0000-0000-000000000000") {
		t.Errorf("upload URL = %s, id = %s, want an absolute URL that ends with the UUID", address, id)
	}
	if secondID, _ := fx.issueUpload("main"); secondID == id {
		t.Errorf("id of the second upload = %s, want another than the first", secondID)
	}
}

func TestFirstUploadCreatesProject(t *testing.T) {
	fx := newFixture(t)
	fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(404, "project")
	fx.issueUpload("main")
	fx.Call(fx.fullKey, "GET", "/v1/projects", "").Want(200, `"name":"shop"`, `"total":1}`)
	// A deployment without a build is not listed.
	fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200, `{"data":[],"limit":1000,"offset":0,"total":0}`)
}

// TestReservedNameIsNotFound checks that a deployment is not found before its first archive has arrived, although the
// first upload address reserves its name.
func TestReservedNameIsNotFound(t *testing.T) {
	fx := newFixture(t)
	fx.issueUpload("main")
	reserved := ""
	for key := range fx.Items.Items() {
		reserved = cmp.Or(regexp.MustCompile(`shop-main-[0-9a-f]{7}`).FindString(key.PK+" "+key.SK), reserved)
	}
	if reserved == "" {
		t.Fatal("the table has no name shop-main-…, want a reserved one")
	}
	deploymentPath := "/v1/deployments/" + reserved
	fx.Call(fx.fullKey, "GET", deploymentPath, "").Want(404)
	fx.Call(fx.fullKey, "POST", deploymentPath+"/deploy", "").Want(404)
	fx.Call(fx.fullKey, "DELETE", deploymentPath, "").Want(404)
}

func TestRefusedUploadCreatesNothing(t *testing.T) {
	fx := newFixture(t)
	fx.Call(fx.fullKey, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":""}`).Want(400)
	fx.Call(fx.createReaderKey(), "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(
		403)
	fx.Call(fx.fullKey, "GET", "/v1/projects", "").Want(200, `"total":0}`)
}

func TestAllowHeaderListsMethods(t *testing.T) {
	fx := newFixture(t)
	for path, allow := range map[string]string{
		// This path also matches {deploymentName}, so it has those methods too.
		sources:                                 "DELETE, GET, HEAD, POST",
		sourceURLPath:                           "DELETE, GET, HEAD, POST",
		shopPath + "/sources":                   "POST",
		statusesPath + "/x":                     "GET, HEAD",
		deploymentsPath:                         "GET, HEAD",
		deploymentsPath + "/x":                  "DELETE",
		"/v1/deployments/x":                     "DELETE, GET, HEAD",
		"/v1/deployments/x/deploy":              "POST",
		"/v1/deployments/x%2Fy/deploy":          "POST",
		"/v1/deployments/x/deploy/":             "POST",
		"/v1/accounts/a/projects/p%2Fq/sources": "POST",
	} {
		fx.Call(fx.fullKey, "PUT", path, "{}").Want(405, "does not take PUT").WantHeader("Allow", allow)
	}
}
