import Orchestration
import Testing
import Vocabulary

/// Every field of a bucket's form: it has an effect, or it is refused.
@Suite struct BucketFieldTests {
    private static let least = [("name", "b"), ("ramQuotaMB", "100")]

    private func errors(
        _ fields: [(String, String)],
        changing existing: BucketRecord? = nil
    ) -> [FieldError] {
        let ground = BucketForm.Ground(
            state: BucketFormTests.state,
            existing: existing,
            uuid: "new",
            password: [1]
        )
        switch BucketForm.validate(
            FormParameters(fields.map { (name: $0.0, value: $0.1) }),
            on: ground
        ) {
        case .accepted: return []
        case .refused(let errors): return errors
        }
    }

    /// A password is any text, and the other fields validate theirs.
    @Test(arguments: BucketField.allCases.filter { $0 != .saslPassword })
    func fieldWithAnImpossibleValueIsRefused(_ field: BucketField) {
        let others = Self.least.filter { $0.0 != field.rawValue }
        let found = errors(others + [(field.rawValue, "no such value")])
        let named = field == .ramQuotaMB ? .ramQuota : field
        #expect(found.map(\.field) == [named.rawValue])
    }

    @Test func unsupportedBucketSettingsAcceptOnlyTheirDefaults() {
        for setting in UnbuiltSetting.ofBuckets {
            for value in setting.accepted {
                #expect(errors(Self.least + [(setting.field, value)]).isEmpty, "\(setting.field)")
            }
            for value in ["no such value", setting.accepted.contains("1") ? "0" : "1"]
            where !setting.accepted.contains(value) {
                let found = errors(Self.least + [(setting.field, value)])
                #expect(found.map(\.field) == [setting.field])
                #expect(found.first?.text.hasPrefix(setting.reason) == true)
                // A repeated field must not hide a value behind the default.
                let hidden = [(setting.field, value), (setting.field, setting.accepted[0])]
                #expect(errors(Self.least + hidden).map(\.field) == [setting.field])
            }
        }
    }

    @Test func unsupportedClusterSettingsAcceptOnlyTheirDefaults() {
        func errors(_ field: String, _ value: String) -> [FieldError] {
            let parameters = FormParameters([(name: field, value: value)])
            var form = ClusterForm(parameters, state: BucketFormTests.state)
            form.validateQuotas(memoryTotal: 4_096 << 20)
            form.validateUnbuilt()
            return form.errors
        }
        for setting in UnbuiltSetting.quotas + UnbuiltSetting.ofClusters {
            #expect(ClusterForm.initialisationFields.contains(setting.field))
            for value in setting.accepted { #expect(errors(setting.field, value).isEmpty) }
            #expect(errors(setting.field, "300").map(\.field) == [setting.field])
        }
    }

    // MARK: Access

    private func accessFields(
        _ fields: [(String, String)],
        changing existing: BucketSettings? = nil
    ) -> [BucketField] {
        BucketForm.accessFields(
            of: FormParameters(fields.map { (name: $0.0, value: $0.1) }),
            changing: existing
        )
    }

    @Test func fieldsThatGrantAccessNeedThePermissionOfThePassword() {
        let granting: [BucketField] = [.passwordless, .saslPassword]
        for field in BucketField.allCases {
            let permission = field.permission(bucket: "b")
            let expected = granting.contains(field) ? "cluster.bucket[b].password!write" : nil
            #expect(permission?.text == expected, "\(field)")
        }
    }

    @Test func formWithUnchangedAccessFieldsChangesNoAccess() {
        let old = [("saslPassword", ""), ("passwordless", "0"), ("authType", "sasl")]
        #expect(accessFields(old).isEmpty)
        #expect(accessFields([("passwordless", "false")]).isEmpty)
        #expect(accessFields([("passwordless", "1")]) == [.passwordless])
        #expect(accessFields([("saslPassword", "secret")]) == [.saslPassword])
        var settings = BucketSettings(name: "b", uuid: "u", quota: 100 << 20)
        settings.password = [1]
        #expect(accessFields([("saslPassword", "")], changing: settings) == [.saslPassword])
        settings.password = []
        settings.passwordless = .loopback
        #expect(accessFields([("passwordless", "1")], changing: settings).isEmpty)
        #expect(accessFields([("passwordless", "0")], changing: settings) == [.passwordless])
    }
}
