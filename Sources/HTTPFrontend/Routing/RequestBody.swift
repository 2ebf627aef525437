internal import Orchestration

extension RESTRequest {
    static let formType = "application/x-www-form-urlencoded"

    /// Content types with which tools send forms; empty if the header is missing.
    private static let formTypes: Set<String> = ["", formType, "application/json", "text/plain"]

    /// The error of a body that does not match the route's content type; nil if it matches or is
    /// empty.
    func flaw(ofBody kind: Route.Body) -> FieldError? {
        guard !body.isEmpty else { return nil }
        switch kind {
        // The view port has its own texts.
        case .raw, .document, .designDocument, .viewQuery:
            return nil
        case .json:
            guard contentType.hasPrefix("multipart/") else { return nil }
            return FieldError("_", unsupported("send JSON as application/json"))
        case .form:
            // Parsed as a form it would have no fields, and the error would name them as missing.
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

    /// A sentence with the unsupported content type and the remedy: the content type to send
    /// instead.
    func unsupported(_ remedy: String) -> String {
        let what =
            contentType.isEmpty ? "A body without a content type" : "Content type \(contentType)"
        return "\(what) is not supported here: \(remedy)"
    }
}
