import Orchestration
import Testing

@Suite struct ClusterFormTests {
    func form(_ fields: [(String, String)]) -> ClusterForm {
        ClusterForm(FormParameters(fields.map { ($0.0, $0.1) }), state: BucketFormTests.state)
    }

    @Test(arguments: [
        ("port", "80", "The port is 8091 while the server runs; --admin-port sets another"),
        ("port", "x", "The port is a number from 1 to 65535, or the word SAME"),
        ("username", "", "The administrator's name cannot be empty"),
        (
            "username", String(repeating: "u", count: 129),
            "The administrator's name has at most 128 characters"
        ),
        (
            "username", "a@b",
            "The administrator's name must not contain control characters or ()<>@,;:\\\"/[]?={}"
        ),
        (
            "username", "a\u{7}",
            "The administrator's name must not contain control characters or ()<>@,;:\\\"/[]?={}"
        ),
        ("password", "five5", "The password must be at least 6 characters long."),
        ("password", "with\u{0}zero", "The password must not contain control characters"),
    ])
    func invalidAdministratorIsRefused(_ field: String, _ value: String, _ text: String) {
        var fields = [("port", "SAME"), ("username", "u"), ("password", "secret")]
        fields.removeAll { $0.0 == field }
        var form = form(fields + [(field, value)])
        form.validateAdministrator(port: 8_091)
        #expect(form.errors == [FieldError(field, text)])
    }

    @Test func administratorNeedsAllThreeFields() {
        var empty = form([])
        empty.validateAdministrator(port: 8_091)
        #expect(empty.errors.map(\.field) == ["port", "username", "password"])
        var good = form([("port", "8091"), ("username", "u"), ("password", "secret")])
        good.validateAdministrator(port: 8_091)
        #expect(good.errors.isEmpty)
        #expect(good.user == "u")
        #expect(good.password == "secret")
    }

    @Test(arguments: [
        (
            "memoryQuota", "100", "memoryQuota",
            "The data service quota (100MB) cannot be less than 300MB (current total buckets quota, or at least 256MB)."
        ),
        ("memoryQuota", "x", "memoryQuota", "The data service quota is a whole number of MB"),
        (
            "memoryQuota", "3277", "_",
            "The total quota (3277MB) is more than this node can give: at most 3276MB of its 4096MB"
        ),
        (
            "cbasMemoryQuota", "1000", "cbasMemoryQuota",
            "There is no analytics service. The only value is 1024."
        ),
    ])
    func quotaMustFitTheMachineAndTheBuckets(
        _ field: String,
        _ value: String,
        _ error: String,
        _ text: String
    ) {
        var form = form([(field, value)])
        form.validateQuotas(memoryTotal: 4_096 << 20)
        #expect(form.errors == [FieldError(error, text)])
    }

    @Test func unimplementedServicesAreRefused() {
        var good = form([("services", "kv")])
        good.validateServices()
        #expect(good.errors.isEmpty)
        var wrong = form([("services", "kv,n1ql,index")])
        wrong.validateServices()
        #expect(
            wrong.errors == [
                FieldError(
                    "services",
                    "These services are not available: n1ql, index. There is kv."
                )
            ]
        )
    }
}
