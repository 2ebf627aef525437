package struct StoredCredentials: Sendable {}
package final class PasswordVerifier: Sendable { init(secret: [UInt8]) {} }
struct ScramServer {}
extension Connection {
    func listMechanisms(_ e: Exchange) {}
    func authenticate(_ e: Exchange) {}
    func continueAuthentication(_ e: Exchange) {}
    func mayUse(_ b: OpenBucket) -> Bool { true }
}
