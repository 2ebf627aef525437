internal import Orchestration

extension AdminRequest {
    static let formType = "application/x-www-form-urlencoded"

    /// Types under which tools send forms, the empty one for those that name none.
    private static let formTypes: Set<String> = ["", formType, "application/json", "text/plain"]

    /// Why the body is not what a route reads; nil where it is, or where there is none.
    func flaw(ofBody kind: Route.Body) -> FieldError? {
        guard !body.isEmpty else { return nil }
        switch kind {
        case .raw:
            return nil
        case .json:
            guard contentType.hasPrefix("multipart/") else { return nil }
            return FieldError("_", unsupported("send JSON as application/json"))
        case .form:
            // Read as a form it would say nothing, and every field would be missed.
            guard Self.formTypes.contains(contentType) else {
                return FieldError("_", unsupported("send the fields as \(Self.formType)"))
            }
            if looksLikeJSON {
                let text = "The body is JSON, which is not supported here: send the fields as "
                return FieldError("_", text + Self.formType)
            }
            return formFields.illFormedField()
        }
    }

    /// A sentence that says which content type is not supported, and what to send instead.
    func unsupported(_ cure: String) -> String {
        let what =
            contentType.isEmpty ? "A body without a content type" : "Content type \(contentType)"
        return "\(what) is not supported here: \(cure)"
    }
}
