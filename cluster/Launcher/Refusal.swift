/// The reason why a command failed, and the remedy: cause first, then the cure.
///
/// Printed unchanged, so it is written for the user at the terminal.
struct Refusal: Error, CustomStringConvertible {
    let cause: String
    let cure: String?
    /// Whether the cluster refused user and password, which waiting does not change.
    var isOfLogin = false

    init(_ cause: String, cure: String? = nil) {
        self.cause = cause
        self.cure = cure
    }

    var description: String { [cause, cure].compactMap(\.self).joined(separator: "\n  ") }
}
