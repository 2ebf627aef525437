package import Syncing

/// Finds the route of a request.
package final class Router {
    package init(
        _ routes: [Route],
        crossOrigin: CrossOriginPolicy? = nil,
        administration: AdministrationGuard = AdministrationGuard()
    ) {}
}

/// Which requests to the administration port are refused because a web page may have sent them.
package struct AdministrationGuard {
    package var hostNames: [String] = []
    package var hasLogin: (GatewayRequest) -> Bool = { _ in false }
    package init() {}
}
