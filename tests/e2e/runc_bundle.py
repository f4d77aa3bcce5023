# SPDX-License-Identifier: Apache-2.0
"""What the kubelet would ask runc for: runc_bundle.py MANIFEST FOLDER INDEX NETNS HOSTS DDPRUN DATA
writes FOLDER/config.json for the pod INDEX of the Job in MANIFEST, with user, root, capabilities,
variables and volumes as the manifest has them. The image is this host's /usr and ddprun; DATA is a volume
of the pod at /data."""
import json, os, sys, yaml

manifest, folder, index, netns, hosts, ddprun, data = sys.argv[1:]
with open(manifest) as file:
    job = next(each for each in yaml.safe_load_all(file) if each['kind'] == 'Job')
pod = job['spec']['template']['spec']
container = pod['containers'][0]
user, own = pod['securityContext'], container['securityContext']
assert user['runAsNonRoot'] and own['capabilities'] == {'drop': ['ALL']}

root = folder + '/root'
for name in ('usr', 'etc', 'proc', 'dev', 'sys', 'tmp', 'app', 'data'):
    os.makedirs(root + '/' + name, exist_ok=True)
for name in ('bin', 'lib', 'lib64', 'sbin'):
    if os.path.islink('/' + name) and not os.path.lexists(root + '/' + name):
        os.symlink(os.readlink('/' + name), root + '/' + name)


def bind(source, place, how='ro'):
    return {'destination': place, 'type': 'bind', 'source': source, 'options': ['rbind', how]}


def secret_folder(secret):
    """As the kubelet does it: behind links, root's, and the group's for fsGroup. The Secrets are files in DATA/.secrets."""
    place = folder + '/secret'
    os.makedirs(place + '/..data')
    for item in secret['items']:
        with open(data + '/.secrets/' + secret['secretName'] + '/' + item['key']) as source:
            name = place + '/..data/' + item['path']
            with open(name, 'w') as copy:
                copy.write(source.read())
            os.chmod(name, secret['defaultMode'] | 0o440)
            os.chown(name, 0, user['fsGroup'])
            os.symlink('..data/' + item['path'], place + '/' + item['path'])
    return place


def volume(mount):
    volume = next(each for each in pod['volumes'] if each['name'] == mount['name'])
    if 'secret' in volume:
        return bind(secret_folder(volume['secret']), mount['mountPath'])
    spec = volume['emptyDir']
    if spec.get('medium') == 'Memory':
        return {'destination': mount['mountPath'], 'type': 'tmpfs', 'source': 'tmpfs',
                'options': ['nosuid', 'nodev', 'mode=1777']}
    place = folder + '/volume-' + mount['name']
    os.makedirs(place, exist_ok=True)
    os.chown(place, 0, user['fsGroup'])
    os.chmod(place, 0o2777)
    return bind(place, mount['mountPath'], 'rw')


mounts = [{'destination': '/proc', 'type': 'proc', 'source': 'proc'},
          {'destination': '/dev', 'type': 'tmpfs', 'source': 'tmpfs', 'options': ['nosuid', 'mode=755']},
          {'destination': '/dev/pts', 'type': 'devpts', 'source': 'devpts', 'options': ['newinstance']},
          {'destination': '/sys', 'type': 'sysfs', 'source': 'sysfs', 'options': ['ro']},
          bind('/usr', '/usr'), bind('/etc/ld.so.cache', '/etc/ld.so.cache'), bind(hosts, '/etc/hosts'),
          bind(ddprun, '/app/ddprun'), bind(data, '/data', 'rw')]
mounts += [volume(each) for each in container['volumeMounts']]
variables = {'PATH': '/app:/usr/bin:/bin', 'JOB_COMPLETION_INDEX': index,
             'KUBERNETES_SERVICE_HOST': '10.0.0.1', 'DDPRUN_TEST_ID': os.environ['DDPRUN_TEST_ID']}
variables.update({each['name']: each['value'] for each in container['env']})
none = {kind: [] for kind in ('bounding', 'effective', 'permitted')}
config = {
    'ociVersion': '1.0.2',
    'hostname': job['metadata']['name'] + '-' + index,
    'root': {'path': root, 'readonly': own['readOnlyRootFilesystem']},
    'mounts': mounts,
    'process': {
        'args': container['command'] + [each.replace('$$', '$') for each in container['args']],
        'env': [name + '=' + value for name, value in variables.items()],
        'cwd': '/app',
        'user': {'uid': user['runAsUser'], 'gid': user['runAsGroup'], 'additionalGids': [user['fsGroup']]},
        'capabilities': none,
        'noNewPrivileges': not own['allowPrivilegeEscalation']},
    'linux': {'namespaces': [{'type': 'pid'}, {'type': 'ipc'}, {'type': 'uts'}, {'type': 'mount'},
                             {'type': 'network', 'path': netns}],
              'maskedPaths': ['/proc/kcore', '/proc/keys', '/proc/timer_list'],
              'readonlyPaths': ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys']},
}
with open(folder + '/config.json', 'w') as file:
    json.dump(config, file)
