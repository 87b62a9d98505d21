package customdomains

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	domainsPath = "/v1/accounts/{accountName}/custom-domains"
	domainPath  = domainsPath + "/{hostname}"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "customdomains",
	Title:       "Custom domains",
	Description: "Hostnames of an account's own, at which its deployments are served.",
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{"custom-domain", "custom-domain-count", "deployment"},
		Writes: []store.KeyPrefix{
			"custom-domain", "custom-domain-count", "custom-domain-host", "custom-domain-index", "custom-domain-versions",
			"deployment", "operation", "projects",
		},
	},
	Operations: []api.AnyOperation{list, create, update, remove, read, verify, upload, removeCertificate},
}

var list = api.Operation[listIn, listOut]{
	ID: "CustomDomainsService_list", Method: http.MethodGet, Path: domainsPath,
	Summary:     "List custom domains",
	Description: "In the order of their hostnames. An account key with limits sees none.",
	Scope:       auth.CustomDomains.Read(), Invisible: api.InvisibleOmitted,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.Query, api.RootKey},
}

var create = api.Operation[createIn, mutationOut]{
	ID: "CustomDomainsService_create", Method: http.MethodPost, Path: domainsPath,
	Summary: "Create a custom domain",
	Description: "Set the TXT record of ownershipVerification where the hostname's zone is kept, and point the hostname " +
		"to the gateway, as a CNAME to cname. " +
		"It is served once the TXT record was found, which is looked for by itself. The record's text is the same whenever " +
		"the account creates the hostname. " +
		"A hostname that the account has already leads to the named deployment as well. An account has at most 1000. " +
		"Account keys with limits may not make one.",
	Scope: auth.CustomDomains.Write(), Invisible: api.InvisibleNotFound,
	Audit: "custom-domain.create", Resources: []string{"custom-domain"}, ReadPath: domainPath,
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.GetItem, api.BatchGetItem, api.PutItem, api.UpdateItem, api.RootKey},
}

var update = api.Operation[updateIn, mutationOut]{
	ID: "CustomDomainsService_update", Method: http.MethodPatch, Path: domainsPath,
	Summary: "Attach, reassign or detach a custom domain",
	Description: "It leads to the named deployment in place of the one that is served, or to none at all where " +
		"none is named. " +
		"Of several that it leads to, the named one is served from now on. The gateway goes by it 5 seconds later. Stage " +
		"and alias never change.",
	Scope: auth.CustomDomains.Write(), Invisible: api.InvisibleNotFound,
	Audit: "custom-domain.update", Resources: []string{"custom-domain"}, ReadPath: domainPath,
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.GetItem, api.PutItem, api.UpdateItem, api.RootKey},
}

var remove = api.Operation[removeIn, api.NoContent]{
	ID: "CustomDomainsService_delete", Method: http.MethodDelete, Path: domainsPath,
	Summary: "Delete a custom domain",
	Description: "With deploymentName it leads to that deployment no more, and stays. The gateway serves it no more 5 " +
		"seconds later.",
	Scope: auth.CustomDomains.Write(), Invisible: api.InvisibleNotFound,
	Audit: "custom-domain.delete", Resources: []string{"custom-domain"}, ReadPath: domainPath,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem, api.PutItem, api.UpdateItem, api.DeleteItem},
}

var read = api.Operation[domainIn, domainOut]{
	ID: "CustomDomainsService_read", Method: http.MethodGet, Path: domainPath,
	Summary:     "Read a custom domain",
	Description: "What it leads to, and whether its ownership is proven.",
	Scope:       auth.CustomDomains.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem, api.RootKey},
}

var verify = api.Operation[domainIn, domainOut]{
	ID: "CustomDomainsService_verify", Method: http.MethodPost, Path: domainPath + "/verify",
	Summary: "Look for a custom domain's TXT record now",
	Description: "It is looked for by itself for 7 days, ever less often. A conflict says which record is missing, or " +
		"that the hostname is another account's.",
	Scope: auth.CustomDomains.Write(), Invisible: api.InvisibleNotFound,
	Audit: "custom-domain.verify", Resources: []string{"custom-domain"}, ReadPath: domainPath,
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.GetItem, api.PutItem, api.UpdateItem, api.RootKey},
}

var upload = api.Operation[uploadIn, domainOut]{
	ID: "CustomDomainsService_uploadCertificate", Method: http.MethodPut, Path: domainPath + "/certificate",
	Summary: "Upload a custom domain's certificate",
	Description: "The gateway serves the hostname with it from 5 seconds later on, in place of the one before. The " +
		"private key is sealed and never shown. The hostname has to be proven to be yours.",
	Scope: auth.CustomDomains.Write(), Invisible: api.InvisibleNotFound,
	Audit: "custom-domain.certificate", Resources: []string{"custom-domain"}, ReadPath: domainPath,
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.GetItem, api.PutItem, api.UpdateItem, api.RootKey},
}

var removeCertificate = api.Operation[domainIn, domainOut]{
	ID: "CustomDomainsService_deleteCertificate", Method: http.MethodDelete, Path: domainPath + "/certificate",
	Summary: "Delete a custom domain's uploaded certificate",
	Description: "Where the installation obtains certificates by ACME, it does so for the hostname from now on, and " +
		"serves the uploaded one until that is there. " +
		"Otherwise the hostname is not served by TLS any more 5 seconds later. A conflict is a certificate that was " +
		"not uploaded.",
	Scope: auth.CustomDomains.Write(), Invisible: api.InvisibleNotFound,
	Audit: "custom-domain-certificate.delete", Resources: []string{"custom-domain"}, ReadPath: domainPath,
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.GetItem, api.PutItem, api.UpdateItem},
}

type listIn struct {
	api.AccountPath
	api.Page
}

type listOut = api.Body[api.List[customDomain]]

type createIn struct {
	api.AccountPath
	Body struct {
		Hostname       string `json:"hostname" maxLength:"1024" doc:"A host name of a domain of yours, at most 241 characters; also an internationalized one." example:"api.example.com"`
		DeploymentName string `json:"deploymentName" required:"false" minLength:"1" maxLength:"63" doc:"The deployment that it leads to."`
		Stage          string `json:"stage" required:"false" enum:"api,dev-portal" doc:"What of the deployment is served: api, unless given. Nothing serves developer portals yet."`
		IsDefault      bool   `json:"isDefault" required:"false" doc:"Where the hostname leads to other deployments already: whether this one is served from now on."`
		IsAlias        bool   `json:"isAlias" required:"false" doc:"Whether TLS ends before the gateway, at a proxy of yours: no certificate is kept for the hostname then."`
	} `nameHint:"CustomDomainCreate"`
}

type updateIn struct {
	api.AccountPath
	Body struct {
		Hostname       string `json:"hostname" maxLength:"1024" doc:"The custom domain's hostname."`
		DeploymentName string `json:"deploymentName" required:"false" minLength:"1" maxLength:"63" doc:"The deployment that it leads to from now on, none if absent."`
		IsDefault      *bool  `json:"isDefault" required:"false" doc:"false leaves another deployment served that it leads to. It goes with deploymentName."`
	} `nameHint:"CustomDomainUpdate"`
}

type removeIn struct {
	api.AccountPath
	Hostname       string `query:"hostname" required:"true" maxLength:"1024" doc:"The custom domain's hostname."`
	DeploymentName string `query:"deploymentName" maxLength:"63" doc:"The deployment that it shall lead to no more."`
}

// DomainPath is embedded in the inputs of operations. It is exported because huma skips unexported embedded types.
type DomainPath struct {
	api.AccountPath
	Hostname string `path:"hostname" maxLength:"1024" doc:"The custom domain's hostname."`
}

type domainIn struct {
	DomainPath
}

type uploadIn struct {
	DomainPath
	Body struct {
		Certificate string `json:"certificate" maxLength:"65536" doc:"The server's certificate in PEM, with its intermediates behind it. The hostname has to be among its subject alternative names."`
		Key         string `json:"key" format:"password" maxLength:"16384" doc:"Its private key in PEM: RSA, ECDSA or Ed25519, not encrypted."`
	} `nameHint:"CustomDomainUpload"`
}

type mutationOut = api.Body[mutation]

type mutation struct {
	DeploymentName *string `json:"deploymentName" doc:"The deployment that is served at the hostname, null for none."`
	Hostname       string  `json:"hostname" doc:"The hostname, in lower case, an internationalized one in its ASCII form." example:"api.example.com"`
	Stage          *string `json:"stage" enum:"api,dev-portal" doc:"What of the deployment is served."`
	Proof          *proof  `json:"ownershipVerification" doc:"The DNS record that proves that the hostname is yours, null once it was found."`
	CNAME          *string `json:"cname" doc:"Where the hostname's CNAME record shall point, null without a deployment."`
}

type proof struct {
	_     struct{} `nullable:"true"`
	Name  string   `json:"name" doc:"The record's name." example:"_gatewright.api.example.com"`
	Type  string   `json:"type" enum:"TXT" doc:"Its type."`
	Value string   `json:"value" doc:"Its text."`
}

type domainOut = api.Body[customDomain]

type customDomain struct {
	ID          string       `json:"id" doc:"The custom domain's id." example:"cdm_0QxK2mQ0pXv4Zt7Yh1Lc5Rb9W3"`
	AccountName string       `json:"accountName" doc:"Whose it is."`
	ProjectName string       `json:"projectName" doc:"The project of the deployment that is served, empty without one."`
	Deployments []mapping    `json:"deployments" nullable:"false" doc:"What it leads to, the served one first."`
	Hostname    string       `json:"hostname" doc:"The hostname, in lower case, an internationalized one in its ASCII form." example:"api.example.com"`
	Provider    string       `json:"provider" enum:"cloudflare,amazon,custom,alias" doc:"custom where the gateway ends TLS, alias where a proxy before it does."`
	Status      string       `json:"status" enum:"pending,active" doc:"pending until the TXT record was found."`
	Proof       *proof       `json:"ownershipVerification" doc:"The DNS record that proves that the hostname is yours, null once it was found."`
	Certificate *certificate `json:"certificate" doc:"The certificate that it is served with, null for none."`
	CreatedOn   string       `json:"createdOn" format:"date-time" doc:"When it was created."`
	UpdatedOn   string       `json:"updatedOn" format:"date-time" doc:"When it was last changed."`
}

type certificate struct {
	_         struct{} `nullable:"true"`
	Source    string   `json:"source" enum:"uploaded,acme" doc:"uploaded by you, or acme where the installation obtains and renews it."`
	Status    string   `json:"status" enum:"pending,active,failed" doc:"pending before the first one, failed where the last attempt to obtain or renew it came to nothing."`
	Issuer    *string  `json:"issuer" doc:"Who has signed it, null before the first one." example:"CN=Example CA"`
	ValidFrom *string  `json:"validFrom" format:"date-time" doc:"When it begins to be valid."`
	ValidTo   *string  `json:"validTo" format:"date-time" doc:"When it ends to be."`
	RenewsOn  *string  `json:"renewsOn" format:"date-time" doc:"When it is obtained, renewed or tried again, null for an uploaded one."`
	Message   *string  `json:"message" doc:"Why the last attempt came to nothing."`
}

type mapping struct {
	DeploymentName  *string `json:"deploymentName" doc:"The deployment."`
	Branch          *string `json:"branch" doc:"Its branch."`
	EnvironmentType *string `json:"environmentType" enum:"PRODUCTION,PREVIEW,WORKING_COPY" doc:"Its kind of environment."`
	IsDefault       bool    `json:"isDefault" doc:"Whether it is the one that is served."`
	Stage           *string `json:"stage" enum:"api,dev-portal" doc:"What of it is served."`
	CNAME           *string `json:"cname" doc:"Where the hostname's CNAME record shall point."`
}
