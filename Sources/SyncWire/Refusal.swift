/// An answer with an error: an HTTP status and the text of its member `reason`.
package struct Refusal: Error, Hashable, Sendable {
    package let status: Int
    package let reason: String

    package init(_ status: Int, _ reason: String) {
        self.status = status
        self.reason = reason
    }

    package static let missing = Refusal(404, "missing")
}
