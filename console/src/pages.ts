import type { Page } from "./registry";

/** All pages, in the order of the navigation. Each is registered here, and nowhere else. */
export const pages: Page[] = [
  { path: "/", title: "Overview", nav: { section: "", label: "Overview" }, key: "o", cli: "gatewright whoami", load: () => import("./pages/overview") },
  {
    path: "/projects", title: "Projects", nav: { section: "Gateway", label: "Projects" }, key: "p", needs: "ProjectsService_list",
    cli: "gatewright project list", load: () => import("./pages/projects"),
  },
  { path: "/projects/:project", title: ":project", up: "/projects", needs: "ProjectsService_read", cli: "gatewright project get :project", load: () => import("./pages/project") },
  {
    path: "/projects/:project/deployments", title: "Deployments of :project", up: "/projects/:project", needs: "DeploymentsService_list",
    cli: "gatewright deployment list --project :project", load: () => import("./pages/deployments"),
  },
  {
    path: "/projects/:project/builds/:build", title: "Build :build", up: "/projects/:project/deployments", needs: "V1_deploymentStatus",
    cli: "gatewright deployment status :build --project :project", load: () => import("./pages/build"),
  },
  { path: "/deployments/:deployment", title: ":deployment", up: "/projects", needs: "DeploymentsService_read", cli: "gatewright deployment history :deployment", load: () => import("./pages/deployment") },
  {
    path: "/deployments/:deployment/routes", title: "Routes of :deployment", up: "/deployments/:deployment", needs: "DeploymentsService_routes",
    cli: "gatewright deployment routes :deployment", load: () => import("./pages/routes"),
  },
  {
    path: "/deployments/:deployment/traffic", title: "Live traffic of :deployment", up: "/deployments/:deployment", needs: "AnalyticsService_recentCalls",
    cli: "gatewright analytics calls :deployment", load: () => import("./pages/traffic"),
  },
  {
    path: "/deployments/:deployment/charts", title: "Charts of :deployment", up: "/deployments/:deployment", needs: "AnalyticsService_statsByStatusCode",
    cli: "gatewright analytics status-codes :deployment", load: () => import("./pages/charts"),
  },
  {
    path: "/projects/:project/branches/:branch/variables", title: "Variables of :branch", up: "/projects/:project", needs: "VariablesService_list",
    cli: "gatewright variable list --project :project --branch :branch", load: () => import("./pages/variables"),
  },
  {
    path: "/buckets", title: "Key buckets", nav: { section: "Consumers", label: "Key buckets" }, key: "b", needs: "ApiKeyBucketsService_list",
    cli: "gatewright bucket list", load: () => import("./pages/buckets"),
  },
  { path: "/buckets/:bucket", title: ":bucket", up: "/buckets", needs: "ApiKeyBucketsService_read", cli: "gatewright bucket get :bucket", load: () => import("./pages/bucket") },
  {
    path: "/buckets/:bucket/consumers", title: "Consumers of :bucket", up: "/buckets/:bucket", needs: "ApiKeyConsumersService_list",
    cli: "gatewright consumer list --bucket :bucket", load: () => import("./pages/consumers"),
  },
  {
    path: "/buckets/:bucket/consumers/:consumer", title: ":consumer", up: "/buckets/:bucket/consumers", needs: "ApiKeyConsumersService_read",
    cli: "gatewright consumer get :consumer --bucket :bucket", load: () => import("./pages/consumer"),
  },
  {
    path: "/account-keys", title: "Account keys", nav: { section: "Account", label: "Account keys" }, key: "k", needs: "AccountKeysService_list",
    cli: "gatewright account-key list", load: () => import("./pages/accountkeys"),
  },
  {
    path: "/audit-log", title: "Audit log", nav: { section: "Account", label: "Audit log" }, key: "a", needs: "AuditLogsService_list",
    cli: "gatewright log list", load: () => import("./pages/auditlog"),
  },
  {
    path: "/tunnels", title: "Tunnels", nav: { section: "Network", label: "Tunnels" }, key: "t", needs: "TunnelService_list",
    cli: "gatewright tunnel list", load: () => import("./pages/tunnels"),
  },
  { path: "/tunnels/:tunnel", title: "Tunnel :tunnel", up: "/tunnels", needs: "TunnelService_read", cli: "gatewright tunnel get :tunnel", load: () => import("./pages/tunnel") },
  {
    path: "/domains", title: "Custom domains", nav: { section: "Network", label: "Custom domains" }, key: "d", needs: "CustomDomainsService_list",
    cli: "gatewright domain list", load: () => import("./pages/domains"),
  },
  { path: "/domains/:domain", title: ":domain", up: "/domains", needs: "CustomDomainsService_read", cli: "gatewright domain get :domain", load: () => import("./pages/domain") },
  {
    path: "/client-cas", title: "Client CAs", nav: { section: "Network", label: "Client CAs" }, needs: "ClientMtlsCaCertificatesService_list",
    cli: "gatewright ca list", load: () => import("./pages/cas"),
  },
  {
    path: "/projects/:project/certificates", title: "mTLS certificates of :project", up: "/projects/:project", needs: "MtlsCertificatesService_list",
    cli: "gatewright certificate list --project :project", load: () => import("./pages/certificates"),
  },
  {
    path: "/metering", title: "Metering", nav: { section: "Consumers", label: "Metering" }, key: "m", needs: "MeteringBucketsService_list",
    cli: "gatewright metering bucket list", load: () => import("./pages/metering"),
  },
  { path: "/metering/:bucket", title: "Metering :bucket", up: "/metering", needs: "MeteringBucketsService_read", cli: "gatewright metering bucket get :bucket", load: () => import("./pages/meteringbucket") },
  {
    path: "/metering/:bucket/subscriptions/:subscription", title: "Subscription :subscription", up: "/metering/:bucket", needs: "MeteringSubscriptionsService_read",
    cli: "gatewright metering subscription get :subscription --bucket :bucket", load: () => import("./pages/subscription"),
  },
];
